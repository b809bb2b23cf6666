---Verdict: decides hunks: accepts, rejects, says why, changes them before they land; keeps or undoes what landed.
---
---Rules: a key decides what the cursor stands on and nothing else.

local client = require('dsh.client')
local feed = require('dsh.feed')
local marks = require('dsh.marks')
local message = require('dsh.message')
local protocol = require('dsh.protocol')
local review = require('dsh.review')

local M = {}

local function ids_of(found)
  return vim.tbl_map(function(one)
    return one.hunk.id
  end, found)
end

---@param scope 'hunk'|'file'|'all'
---@return table? argument of the command
local function chosen(scope)
  local argument = { session = feed.state.session, hunks = 'all' }
  if scope == 'hunk' then
    local one = review.here()
    if not one then
      return message.info('no proposed hunk is under the cursor')
    end
    argument.hunks = { one.hunk.id }
  elseif scope == 'file' then
    argument.hunks = ids_of(review.in_buffer(vim.api.nvim_get_current_buf()))
    if #argument.hunks == 0 then
      return message.info('no proposed hunk is in this buffer')
    end
  end
  return argument
end

local function decide(command, argument)
  client.run(command, argument, function()
    for _, id in
      ipairs(command == protocol.COMMANDS.review_accept and argument.hunks ~= 'all' and argument.hunks or {})
    do
      review.forget_landed(id)
    end
    review.refresh()
  end, function(failure)
    review.refresh()
    client.tell(failure)
  end)
end

---@param scope 'hunk'|'file'|'all'
function M.accept(scope)
  local argument = chosen(scope)
  if argument then
    decide(protocol.COMMANDS.review_accept, argument)
  end
end

---@param scope 'hunk'|'file'|'all'
---@param comment string? for the agent
function M.reject(scope, comment)
  local argument = chosen(scope)
  if argument then
    argument.comment = comment
    decide(protocol.COMMANDS.review_reject, argument)
  end
end

---Reject the hunk under the cursor with words for the agent.
function M.comment()
  local argument = chosen('hunk')
  if argument then
    vim.ui.input({ prompt = 'Why not? ' }, function(words)
      if words then
        argument.comment = words ~= '' and words or nil
        decide(protocol.COMMANDS.review_reject, argument)
      end
    end)
  end
end

local function close(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_delete(bufnr, { force = true })
  end
end

local function accept_as(bufnr, hunk)
  local text = table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), '\n')
  local ending = hunk.newText:match('\r?\n$') or hunk.oldText:match('\r?\n$') or ''
  local argument = { session = feed.state.session, hunks = { hunk.id } }
  argument.edited = { [hunk.id] = text == '' and '' or text .. ending }
  vim.bo[bufnr].modified = false
  client.run(protocol.COMMANDS.review_accept, argument, function()
    review.refresh()
    close(bufnr)
  end, function(failure)
    if vim.api.nvim_buf_is_valid(bufnr) then
      vim.bo[bufnr].modified = true
    end
    client.tell(failure)
  end)
end

---Change the hunk under the cursor in a window of its own; writing that accepts it.
function M.edit()
  local one = review.here()
  if not one or one.kind == 'landed' then
    return message.info('no proposed hunk is under the cursor')
  end
  local filetype = vim.bo.filetype
  local bufnr = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(bufnr, 'dsh://hunk/' .. one.hunk.id)
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, marks.lines_of(one.hunk.newText))
  vim.bo[bufnr].buftype = 'acwrite'
  vim.bo[bufnr].bufhidden = 'wipe'
  vim.bo[bufnr].filetype = filetype
  vim.bo[bufnr].modified = false
  local height = math.max(3, math.min(vim.api.nvim_buf_line_count(bufnr) + 1, math.floor(vim.o.lines / 2)))
  vim.api.nvim_open_win(bufnr, true, { split = 'below', height = height })
  vim.wo.winbar = '%#DshMuted# :w accepts the hunk with this text · :q! leaves it as it is'
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = bufnr,
    callback = function()
      accept_as(bufnr, one.hunk)
    end,
  })
end

return M
