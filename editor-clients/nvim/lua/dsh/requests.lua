---Requests: what the server asks of the editor, what it tells, and who answers.

local buffers = require('dsh.buffers')
local calm = require('dsh.calm')
local feed = require('dsh.feed')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

M.CAPABILITIES = {
  version = protocol.VERSION,
  review = true,
  approve = true,
  ask = true,
  diagnostics = true,
  navigate = true,
  save = true,
}

local function on_message(_, params)
  local level = params.type
  local say = level == 1 and message.error or level == 2 and message.warn or message.info
  say((params.message:gsub('^DSH:? ', '')))
end

local function shown(name)
  return function(_, params)
    feed.emit(name, params)
    return { shown = true }
  end
end

local CALM_S = 4 -- the server waits 10 s for an edit, 5 s for the rest

---The loaded buffers that an edit is for.
---@param edit table WorkspaceEdit
local function buffers_of(edit)
  local found = {}
  for _, change in ipairs(edit.documentChanges or {}) do
    found[#found + 1] = change.textDocument and buffers.of(change.textDocument.uri)
  end
  return found
end

---Tell of the edited text now: what is typed next would be told with it, and nobody could tell one from the other.
---
---Before any request Neovim tells of the changes that it has kept back. This one asks what waits.
---@param client vim.lsp.Client
---@param edit table WorkspaceEdit
local function tell_at_once(client, edit)
  local params = { command = protocol.COMMANDS.review_list, arguments = { { session = feed.state.session } } }
  for _, bufnr in ipairs(buffers_of(edit)) do
    if vim.lsp.buf_is_attached(bufnr, client.id) then
      client:request('workspace/executeCommand', params, function() end, bufnr)
    end
  end
end

local function apply_edit(_, params, context)
  local client = assert(vim.lsp.get_client_by_id(context.client_id))
  if not calm.wait(buffers_of(params.edit), CALM_S) then
    return { applied = false, failureReason = 'a command or a selection has begun there' }
  end
  local result = require('dsh.edit').apply(params, client.offset_encoding)
  tell_at_once(client, params.edit)
  return result
end

M.HANDLERS = {
  ['window/showMessage'] = on_message,
  ['workspace/applyEdit'] = apply_edit,
  [protocol.STATUS] = function(_, params)
    feed.take_status(params)
  end,
  [protocol.REVIEW] = shown('review'),
  [protocol.APPROVE] = shown('approve'),
  [protocol.ASK] = shown('ask'),
  [protocol.SAVE] = function(_, params)
    calm.wait({}, CALM_S)
    return require('dsh.save').save(params)
  end,
  [protocol.DIAGNOSTICS] = function(_, params)
    return require('dsh.language').diagnostics(params)
  end,
  [protocol.NAVIGATE] = function(_, params)
    return require('dsh.language').navigate(params)
  end,
}

return M
