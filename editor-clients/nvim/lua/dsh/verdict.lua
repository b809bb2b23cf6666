---Verdict: decides hunks: accepts, rejects, says why, changes them before they land; keeps or undoes what landed.
---
---Rules: a key decides what the cursor stands on and nothing else.

local client = require('dsh.client')
local feed = require('dsh.feed')
local marks = require('dsh.marks')
local message = require('dsh.message')
local protocol = require('dsh.protocol')
local review = require('dsh.review')
local scratch = require('dsh.scratch')

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

---Accept a hunk with another text than the proposed one.
local function accept_as(hunk)
  local ending = hunk.newText:match('\r?\n$') or hunk.oldText:match('\r?\n$') or ''
  return function(text, done, failed)
    local argument = { session = feed.state.session, hunks = { hunk.id } }
    argument.edited = { [hunk.id] = text == '' and '' or text .. ending }
    client.run(protocol.COMMANDS.review_accept, argument, function()
      review.refresh()
      done()
    end, function(failure)
      failed()
      client.tell(failure)
    end)
  end
end

---Change the hunk under the cursor in a window of its own; writing that accepts it.
function M.edit()
  local one = review.here()
  if not one or one.kind == 'landed' then
    return message.info('no proposed hunk is under the cursor')
  elseif not review.has_text(one) then
    return message.info('this has no text to change: accept or reject it')
  end
  scratch.correct({
    name = 'dsh://hunk/' .. one.hunk.id,
    lines = marks.lines_of(one.hunk.newText),
    filetype = vim.bo.filetype,
    winbar = '%#DshMuted# :w accepts the hunk with this text · :q! leaves it as it is',
    write = accept_as(one.hunk),
  })
end

return M
