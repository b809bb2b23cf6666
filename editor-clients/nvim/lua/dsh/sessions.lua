---Sessions: going on with them, forking, undoing their turns, throwing them away.

local client = require('dsh.client')
local feed = require('dsh.feed')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

local SERVER = protocol.COMMANDS

---Of the current session; without one the server has nothing to do it with.
function M.with_session(callback)
  local id = feed.state.session
  if not id then
    return message.info('there is no session yet; :Dsh ask begins one')
  end
  callback(id)
end

function M.run_in_session(command, argument, callback)
  M.with_session(function(id)
    client.run(command, vim.tbl_extend('force', { session = id }, argument or {}), callback)
  end)
end

local function ago(time)
  local seconds = math.max(0, os.time() - math.floor(time / 1000))
  for _, unit in ipairs({ { 86400, 'd' }, { 3600, 'h' }, { 60, 'min' } }) do
    if seconds >= unit[1] then
      return ('%d %s ago'):format(seconds / unit[1], unit[2])
    end
  end
  return 'just now'
end

---@param all boolean those of other workspaces too
---@param prompt string
---@param callback fun(summary: table)
local function pick_session(all, prompt, callback)
  client.run(SERVER.session_list, { root = not all and client.root() or nil }, function(result)
    if #result.sessions == 0 then
      return message.info('there are no sessions here yet')
    end
    local options = {
      prompt = prompt,
      kind = 'dsh.session',
      format_item = function(one)
        local turns = one.turns == 1 and '1 turn' or ('%d turns'):format(one.turns)
        local title = one.title ~= '' and one.title or 'untitled'
        local waits = require('dsh.status').waits(feed.state.others[one.session])
        local more = (waits and ', waits for ' .. waits or '') .. (all and ', ' .. one.root or '')
        return ('%s  (%s, %s%s)'):format(title, turns, ago(one.updatedAt), more)
      end,
    }
    vim.ui.select(result.sessions, options, function(choice)
      if choice then
        callback(choice)
      end
    end)
  end)
end

function M.sessions(call)
  pick_session(call.bang, 'Go on with a session', function(one)
    client.run(SERVER.session_open, { session = one.session, after = feed.state.seqs[one.session] }, function()
      require('dsh.panel').show()
    end)
  end)
end

function M.new(call)
  client.run(SERVER.session_new, { title = call.words ~= '' and call.words or nil }, function()
    require('dsh.panel').write()
  end)
end

function M.rename(call)
  M.with_session(function(id)
    local function send(title)
      if title and title ~= '' then
        client.run(SERVER.session_rename, { session = id, title = title })
      end
    end
    if call.words ~= '' then
      return send(call.words)
    end
    vim.ui.input({ prompt = 'Title: ', default = feed.view().title }, send)
  end)
end

function M.delete()
  pick_session(false, 'Throw a session away', function(one)
    client.run(SERVER.session_delete, { session = one.session }, function()
      feed.forget(one.session)
      message.info('it is in the trash folder of the sessions')
    end)
  end)
end

function M.export()
  M.run_in_session(SERVER.session_export, { format = 'markdown' }, function(result)
    vim.cmd('tabnew')
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split((result.text:gsub('\n$', '')), '\n'))
    vim.bo.filetype = 'markdown'
  end)
end

---Numbers of turns, for completion.
---@return string[]
function M.turn_numbers()
  return vim.tbl_map(function(turn)
    return tostring(turn.turn)
  end, feed.view().turns)
end

---@return integer? turn, boolean wrong
local function turn_in(call)
  local turn = tonumber(call.args[1])
  if call.words ~= '' and not turn then
    message.warn(('%s is not the number of a turn'):format(call.words))
    return nil, true
  end
  return turn, false
end

function M.fork(call)
  local turn, wrong = turn_in(call)
  if not wrong then
    M.run_in_session(SERVER.session_fork, { turn = turn }, function(summary)
      client.run(SERVER.session_open, { session = summary.session }, function()
        message.info('this session is a fork now; the other one is in :Dsh sessions')
      end)
    end)
  end
end

---The turns that changed files, latest first.
local function turns_with_edits()
  local found = {}
  for _, turn in ipairs(feed.view().turns) do
    local files = {}
    for _, item in ipairs(turn.items) do
      for _, file in ipairs(item.kind == 'review' and item.files or {}) do
        for _, hunk in ipairs(file.hunks) do
          if hunk.landed or hunk.outcome == 'landed' then
            files[vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':t')] = true
          end
        end
      end
    end
    if next(files) then
      table.insert(found, 1, { turn = turn.turn, files = vim.tbl_keys(files) })
    end
  end
  return found
end

function M.rewind(call)
  local turn, wrong = turn_in(call)
  if wrong then
    return
  elseif turn then
    return M.run_in_session(SERVER.rewind, { turn = turn })
  end
  local found = turns_with_edits()
  if #found == 0 then
    return message.info('no turn of this session has changed a file')
  end
  local options = {
    prompt = 'Undo the edits of a turn',
    format_item = function(one)
      return ('turn %d: %s'):format(one.turn, table.concat(one.files, ', '))
    end,
  }
  vim.ui.select(found, options, function(choice)
    if choice then
      M.run_in_session(SERVER.rewind, { turn = choice.turn })
    end
  end)
end

return M
