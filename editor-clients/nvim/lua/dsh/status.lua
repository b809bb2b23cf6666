---Status: how the session stands, as the winbar of the conversation and as a component for any status line.

local client = require('dsh.client')
local feed = require('dsh.feed')
local views = require('dsh.view')

local M = {}

local STATES = {
  idle = { '○', 'DshMuted' },
  running = { '●', 'DshRunning' },
  waiting = { '◆', 'DshWaiting' },
  compacting = { '●', 'DshRunning' },
  ended = { '✗', 'DshFailed' },
  off = { '○', 'DshMuted' },
}

local WAITS = {
  review = 'your review',
  approval = 'your permission',
  question = 'your answer',
  retry = 'the next try',
  tool = 'a tool',
}

---@class dsh.Summary what a status line may show
---@field state string idle, running, waiting, compacting, ended, off
---@field waiting_for string?
---@field queued integer
---@field paused boolean
---@field mode string?
---@field model string?
---@field context integer? percent of the context window in use
---@field tokens string? the same in tokens, such as `31k/1M`
---@field title string?
---@field elsewhere integer sessions in the background that wait for you

---What a session waits for, in words.
---@param told table? a `dsh/status`
---@return string?
function M.waits(told)
  return told and told.state == 'waiting' and (WAITS[told.waitingFor] or told.waitingFor) or nil
end

local function short(tokens)
  for _, unit in ipairs({ { 1e6, 'M' }, { 1e3, 'k' } }) do
    if tokens >= unit[1] then
      return ('%d%s'):format(math.floor(tokens / unit[1] + 0.5), unit[2])
    end
  end
  return tostring(tokens)
end

---@return dsh.Summary
function M.get()
  local state, view = feed.state, feed.view()
  local told = state.status or {}
  local queue = told.queue or { nextTurn = #view.queue.nextTurn, nextStep = #view.queue.nextStep }
  local usage = told.usage or view.usage
  local window = usage.contextWindow and usage.contextWindow > 0 and usage.contextWindow or nil
  local now = told.state or (client.get() and views.state(view)) or 'off'
  return {
    state = state.ended and 'ended' or now,
    waiting_for = told.waitingFor,
    queued = queue.nextTurn + queue.nextStep,
    paused = told.paused == true,
    mode = told.mode or view.mode,
    model = told.model and told.model.name or view.model,
    context = window and math.floor(100 * usage.contextTokens / window + 0.5),
    tokens = window and ('%s/%s'):format(short(usage.contextTokens), short(window)),
    title = view.title,
    elsewhere = feed.waiting_elsewhere(),
  }
end

---@param now dsh.Summary
---@param context string? how full the context is
---@return { [1]: string, [2]: string? }[]
local function parts(now, context)
  local found = {}
  if now.waiting_for then
    found[#found + 1] = { WAITS[now.waiting_for] or now.waiting_for, 'DshWaiting' }
  end
  if now.elsewhere > 0 then
    found[#found + 1] = { ('%d in :Dsh sessions'):format(now.elsewhere), 'DshWaiting' }
  end
  if now.queued > 0 then
    found[#found + 1] = { ('%d %s'):format(now.queued, now.paused and 'paused' or 'queued') }
  end
  found[#found + 1] = now.mode and { now.mode } or nil
  found[#found + 1] = now.model and { now.model } or nil
  found[#found + 1] = context and { context } or nil
  return found
end

local function escape(text)
  return (text:gsub('%%', '%%%%'))
end

local function fitting(text, width)
  if vim.fn.strdisplaywidth(text) <= width then
    return text
  end
  return vim.fn.strcharpart(text, 0, math.max(1, width - 1)) .. '…'
end

---The winbar of the conversation; what says least gives way first where there is little room.
---@return string
function M.winbar()
  local now = M.get()
  local state = STATES[now.state] or STATES.idle
  local title, width = now.title or 'dsh', vim.api.nvim_win_get_width(vim.g.statusline_winid or 0)
  local shown, taken = {}, math.min(vim.fn.strdisplaywidth(title), 12) + 5
  for _, part in ipairs(parts(now, now.context and now.context .. '%')) do
    taken = taken + vim.fn.strdisplaywidth(part[1]) + 3
    if taken > width and #shown > 0 then
      taken = taken - vim.fn.strdisplaywidth(part[1]) - 3
      break
    end
    shown[#shown + 1] = ('%%#%s#%s'):format(part[2] or 'DshMuted', escape(part[1]))
  end
  title = fitting(title, width - taken + math.min(vim.fn.strdisplaywidth(title), 12))
  local left = ('%%#%s# %s %%#DshTitle#%s'):format(state[2], state[1], escape(title))
  return ('%s%%=%s%%#DshMuted# '):format(left, table.concat(shown, '%#DshMuted# · '))
end

---A component for a status line, without colours and without a sign that status lines would read as their own.
---@return string
function M.line()
  local now = M.get()
  if now.state == 'off' then
    return ''
  end
  local words = vim.tbl_map(function(part)
    return part[1]
  end, parts(now, now.tokens))
  return ('%s dsh %s'):format((STATES[now.state] or STATES.idle)[1], table.concat(words, ' · '))
end

for _, name in ipairs({ 'status', 'session', 'exit', 'start' }) do
  feed.on(name, function()
    vim.cmd('redrawstatus!')
  end)
end

return M
