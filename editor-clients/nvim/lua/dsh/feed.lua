---Feed: what the server tells: events, folded into the views of their sessions, and the status; and who listens.
---
---Owns: which session is the current one.

local session = require('dsh.session')
local views = require('dsh.view')

local M = {}

---@class dsh.State
---@field client_id integer?
---@field session string? id of the current session
---@field status table? the last `dsh/status` of the current session
---@field views table<string, dsh.View>
---@field seqs table<string, integer> the last event seen of each session
---@field others table<string, table> the last `dsh/status` of the sessions in the background
---@field ended string? how the server ended, when nobody asked it to
---@field models table? the last `model/list`
---@field replaying boolean? events come that are old
---@field replayed string? id of the session that is told from its beginning
M.state = { views = {}, seqs = {}, others = {} }

local state = M.state
local listeners = {} ---@type table<string, function[]>

---Listen to `event` (value, what changed), `status`, `session`, `exit`, `start`, `drawn` or `reviewed`, or,
---with their params, to `review`, `approve` or `ask`.
---@param name string
---@param listener function
function M.on(name, listener)
  listeners[name] = listeners[name] or {}
  table.insert(listeners[name], listener)
end

---@param name string
function M.emit(name, ...)
  for _, listener in ipairs(listeners[name] or {}) do
    listener(...)
  end
end

---Tell the user's own autocommands, as `User` events with data.
---@param pattern string
---@param data table?
function M.announce(pattern, data)
  vim.api.nvim_exec_autocmds('User', { pattern = pattern, data = data, modeline = false })
end

---The view of the current session, or of another one.
---@param id string?
---@return dsh.View
function M.view(id)
  id = id or state.session
  if not id then
    return views.new()
  end
  state.views[id] = state.views[id] or views.new()
  return state.views[id]
end

---Make a session the current one on this side.
---@param id string
function M.set_session(id)
  if state.session ~= id then
    if state.session and state.status then
      state.others[state.session] = state.status
    end
    state.session, state.status, state.others[id] = id, state.others[id], nil
    M.emit('session')
  end
end

local ANNOUNCED = {
  ['turn/start'] = 'DshTurnStart',
  ['turn/end'] = 'DshTurnEnd',
  ['review/opened'] = 'DshReview',
  ['edit/landed'] = 'DshLanded',
}

---Show a session where none is shown, but not one that was heard of before: that one works on in the background.
local function adopt(id)
  if not state.session and not state.views[id] and not state.others[id] then
    M.set_session(id)
  end
end

---@param value table one value of the event stream
function M.take(value)
  local id = value.session
  if value.seq then
    if value.seq <= (state.seqs[id] or -1) then
      if state.replayed ~= id then
        return -- told already, before the server was started again
      end
      state.views[id], state.replayed = nil, nil -- what was on its way before is told again in its place
    end
    state.seqs[id] = value.seq
  end
  adopt(id)
  local changed, other = session.add(M.view(id), value)
  if value.type == 'model/list' then
    state.models = value.data
  end
  if id == state.session then
    M.emit('event', value, changed, other)
    if ANNOUNCED[value.type] and not state.replaying then
      M.announce(ANNOUNCED[value.type], vim.tbl_extend('keep', { session = id }, value.data))
    end
  end
end

local FOR_PEOPLE = { review = true, approval = true, question = true }

---Whether a status says that a person is waited for.
local function waits_for_people(status)
  return status ~= nil and status.state == 'waiting' and FOR_PEOPLE[status.waitingFor] == true
end

---Tell of a session that has come to wait for a person.
local function announce_waiting(before, now)
  if waits_for_people(now) and (not waits_for_people(before) or before.waitingFor ~= now.waitingFor) then
    M.announce('DshWaiting', { session = now.session, waitingFor = now.waitingFor })
  end
end

---Take the status of a session that works on in the background.
local function take_other(status)
  local before = state.others[status.session]
  state.others[status.session] = status
  M.emit('status')
  announce_waiting(before, status)
end

---How many sessions in the background wait for a person.
---@return integer
function M.waiting_elsewhere()
  return vim.tbl_count(vim.tbl_filter(waits_for_people, state.others))
end

---Take a `dsh/status`.
---@param params table
function M.take_status(params)
  adopt(params.session)
  if state.session ~= params.session then
    return take_other(params)
  end
  local before = state.status or {}
  state.status = params
  M.emit('status')
  M.announce('DshStatus', params)
  announce_waiting(before, params)
end

---Have all sessions told from their beginning when they are opened next; the current one shows until then.
function M.begin_anew()
  local id = state.session
  state.views, state.seqs = { [id] = state.views[id] }, { [id] = state.seqs[id] }
  state.replayed = id
end

---Forget a session that is gone.
---@param id string
function M.forget(id)
  state.views[id], state.seqs[id], state.others[id] = nil, nil, nil
  if state.session == id then
    state.session, state.status = nil, nil
    M.emit('session')
  end
end

return M
