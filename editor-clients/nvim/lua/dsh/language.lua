---Language: lends the agent the user's own language servers, and what they say of a document.
---
---Rules: nothing here holds up the editor: an answer that must wait is given by a coroutine; what no server offers is
---answered `null`; positions are the agent's (its server's encoding) on one side and each server's own on the other.

local buffers = require('dsh.buffers')

local M = {}

local FRESH_S = 2
local ANSWER_S = 4

local heard = {} ---@type table<integer, integer> the version at which a buffer's diagnostics last came

---@type table<string, string>
local METHODS = {
  definition = 'textDocument/definition',
  references = 'textDocument/references',
  implementation = 'textDocument/implementation',
  hover = 'textDocument/hover',
  documentSymbols = 'textDocument/documentSymbol',
  workspaceSymbols = 'workspace/symbol',
  rename = 'textDocument/rename',
}

---Wait, without holding up anything, until `begin` calls back or time is up; false then.
---@param seconds number
---@param begin fun(done: fun(...)): function? starts it, and returns what stops it
local function await(seconds, begin)
  local coroutine_ = coroutine.running()
  if not coroutine_ then
    return false
  end
  local over, result, early = false, { false }, true
  local timer = assert(vim.uv.new_timer())
  local function finish(...)
    if over then
      return
    end
    over, result = true, { ... }
    timer:stop()
    timer:close()
    if not early then
      coroutine.resume(coroutine_)
    end
  end
  timer:start(
    seconds * 1000,
    0,
    vim.schedule_wrap(function()
      finish(false)
    end)
  )
  local stop = begin(finish)
  early = false
  if not over then
    coroutine.yield()
  end
  if stop then
    stop()
  end
  return unpack(result)
end

---The clients of a buffer but ours, those that offer a method.
local function clients_for(method, bufnr)
  return vim.tbl_filter(function(client)
    return client.name ~= require('dsh.client').NAME
  end, vim.lsp.get_clients({ bufnr = bufnr, method = method }))
end

-- Positions -----------------------------------------------------------------------------------------------------

local function line_of(uri, row)
  local bufnr = buffers.of(uri)
  if bufnr then
    return vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ''
  end
  local number = 0
  local path = vim.uri_to_fname(uri)
  local opened, lines = pcall(io.lines, path)
  for line in opened and lines or function() end do
    if number == row then
      return line
    end
    number = number + 1
  end
  return ''
end

---A position counted in another encoding.
local function recode(uri, position, from, to)
  if from == to or position.character == 0 then
    return position
  end
  local line = line_of(uri, position.line)
  local byte = vim.str_byteindex(line, from, position.character, false)
  return { line = position.line, character = vim.str_utfindex(line, to, byte, false) }
end

---A result with all its ranges counted in another encoding; `uri` is the document of ranges that name none.
local function recoded(result, uri, from, to)
  if type(result) ~= 'table' or from == to then
    return result
  end
  local copy = {}
  uri = result.uri or result.targetUri or (result.textDocument or {}).uri or uri
  for key, value in pairs(result) do
    if type(value) == 'table' and value.line and value.character then
      copy[key] = uri and recode(uri, value, from, to) or value
    elseif key == 'changes' then
      copy[key] = {}
      for changed, edits in pairs(value) do
        copy[key][changed] = recoded(edits, changed, from, to)
      end
    else
      copy[key] = recoded(value, uri, from, to)
    end
  end
  return copy
end

-- Answers -------------------------------------------------------------------------------------------------------

---What one server says, in our encoding; nil for nothing.
local function ask(client, method, params, bufnr, encoding)
  local theirs = client.offset_encoding
  local uri = params.textDocument and params.textDocument.uri
  if params.position then
    params = vim.tbl_extend('force', params, { position = recode(uri, params.position, encoding, theirs) })
  end
  local result = await(ANSWER_S, function(done)
    local sent, id = client:request(method, params, function(err, answer)
      done(not err and answer or false)
    end, bufnr)
    if not sent then
      done(false)
    end
    return function()
      if sent and id and client.requests[id] then
        client:cancel_request(id)
      end
    end
  end)
  if not result or (vim.islist(result) and #result == 0) then
    return nil
  end
  return recoded(result, uri, theirs, encoding)
end

---Answer `dsh/navigate`.
---@param params { kind: string, uri: string?, position: table?, query: string?, newName: string? }
function M.navigate(params)
  local client = require('dsh.client').get()
  local encoding = client and client.offset_encoding or 'utf-16'
  local method = METHODS[params.kind]
  if params.uri and not buffers.of(params.uri) and not vim.uv.fs_stat(vim.uri_to_fname(params.uri)) then
    return vim.NIL -- a buffer for it would be taken for the file
  end
  local bufnr = params.uri and buffers.load(params.uri) or nil
  local query = {
    textDocument = params.uri and { uri = params.uri } or nil,
    position = params.position,
    query = params.query,
    newName = params.newName,
    context = params.kind == 'references' and { includeDeclaration = true } or nil,
  }
  for _, theirs in ipairs(method and clients_for(method, bufnr) or {}) do
    local result = ask(theirs, method, query, bufnr, encoding)
    if result then
      return result
    end
  end
  return vim.NIL
end

---Note that diagnostics of a buffer have come, and for which version of it.
---@param bufnr integer
---@return integer version
function M.note(bufnr)
  heard[bufnr] = vim.lsp.util.buf_versions[bufnr] or -1
  return heard[bufnr]
end

---Hear of all diagnostics from now on: those that came before they are asked for count too.
function M.watch()
  vim.api.nvim_create_autocmd('DiagnosticChanged', {
    group = vim.api.nvim_create_augroup('dsh.language', {}),
    callback = function(event)
      M.note(event.buf)
    end,
  })
end

---The buffer's diagnostics but our own, as LSP has them.
local function items_of(bufnr, encoding)
  local own = require('dsh.client').NAME
  local items = {}
  for _, item in ipairs(vim.diagnostic.get(bufnr)) do
    local namespace = vim.diagnostic.get_namespace(item.namespace)
    if item.source ~= 'dsh' and not (namespace.name or ''):find(own, 1, true) then
      local function position(row, col)
        local line = vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1] or ''
        return { line = row, character = vim.str_utfindex(line, encoding, math.min(col, #line), false) }
      end
      items[#items + 1] = {
        range = {
          start = position(item.lnum, item.col),
          ['end'] = position(item.end_lnum or item.lnum, item.end_col or item.col),
        },
        severity = item.severity,
        message = item.message,
        source = item.source,
        code = item.code,
      }
    end
  end
  return items
end

---Answer `dsh/diagnostics`: waits a moment for word that is younger than a version, if one is named.
---@param params { uri: string, after: integer? }
function M.diagnostics(params)
  local client = require('dsh.client').get()
  local encoding = client and client.offset_encoding or 'utf-16'
  local bufnr = buffers.of(params.uri)
  if not bufnr then
    return vim.NIL -- nobody looks at it, and it is not opened for this alone
  end
  local servers = vim.tbl_filter(function(theirs)
    return theirs.name ~= require('dsh.client').NAME
  end, vim.lsp.get_clients({ bufnr = bufnr }))
  if #servers == 0 and #vim.diagnostic.get(bufnr) == 0 then
    return vim.NIL -- nobody here who would know
  end
  local fresh = not params.after or (heard[bufnr] or -1) >= params.after
  if not fresh then
    fresh = await(FRESH_S, function(done)
      local watch = vim.api.nvim_create_autocmd('DiagnosticChanged', {
        buffer = bufnr,
        callback = function()
          if M.note(bufnr) >= params.after then
            done(true)
          end
        end,
      })
      return function()
        pcall(vim.api.nvim_del_autocmd, watch)
      end
    end)
  end
  return { items = items_of(bufnr, encoding), fresh = fresh }
end

return M
