---View: what a screen shows of a session, and what follows from it; grown by the fold of `session.lua` alone.

local M = {}

---@class dsh.Item what a turn shows: said, tool, review, approval, question, failure, by its `kind`
---@field kind string

---@class dsh.Turn
---@field turn integer
---@field items dsh.Item[]
---@field step integer
---@field ended string?
---@field message string?

---@class dsh.Usage
---@field input integer
---@field output integer
---@field cacheRead integer
---@field contextTokens integer
---@field contextWindow integer?

---@class dsh.View
---@field title string?
---@field mode string?
---@field provider string?
---@field model string?
---@field turns dsh.Turn[]
---@field live { step: integer, attempt: integer, block: integer, kind: string, text: string }[]
---@field queue { nextTurn: { id: string, text: string }[], nextStep: { id: string, text: string }[] }
---@field usage dsh.Usage
---@field compacting boolean

---@return dsh.View
function M.new()
  return {
    turns = {},
    live = {},
    queue = { nextTurn = {}, nextStep = {} },
    usage = { input = 0, output = 0, cacheRead = 0, contextTokens = 0 },
    compacting = false,
  }
end

---The turn that events belong to; a stream that was joined in the middle gets one.
---@param view dsh.View
---@return dsh.Turn
function M.turn(view)
  if #view.turns == 0 then
    view.turns[1] = { turn = 0, items = {}, step = 0 }
  end
  return view.turns[#view.turns]
end

---The last item of a kind that matches; as a rule it is close to the end.
---@param view dsh.View
---@param kind string
---@param matches fun(item: dsh.Item): boolean
---@return dsh.Item?
function M.find(view, kind, matches)
  for t = #view.turns, 1, -1 do
    local items = view.turns[t].items
    for i = #items, 1, -1 do
      if items[i].kind == kind and matches(items[i]) then
        return items[i]
      end
    end
  end
end

---All hunks of a review, in order.
---@return table[]
function M.hunks(review)
  local hunks = {}
  for _, file in ipairs(review.files) do
    vim.list_extend(hunks, file.hunks)
  end
  return hunks
end

---Whether an item waits for a person, or a failed call for its next try.
---@param item dsh.Item
function M.waits(item)
  if item.kind == 'approval' then
    return not item.outcome
  elseif item.kind == 'question' then
    return not item.closed
  elseif item.kind == 'failure' then
    return item.waits
  end
  return item.kind == 'review' and vim.iter(M.hunks(item)):any(function(hunk)
    return not hunk.outcome
  end)
end

local WAITS =
  { { 'approval', 'approval' }, { 'question', 'question' }, { 'review', 'review' }, { 'failure', 'retry' } }

---What a person must decide before the turn goes on, or the next try, which comes by itself.
---@param view dsh.View
---@return 'approval'|'question'|'review'|'retry'|nil
function M.waiting_for(view)
  local last = view.turns[#view.turns]
  local waits = {}
  for _, item in ipairs(last and not last.ended and last.items or {}) do
    if M.waits(item) then
      waits[item.kind] = true
    end
  end
  for _, row in ipairs(WAITS) do
    if waits[row[1]] then
      return row[2]
    end
  end
end

---@param view dsh.View
---@return 'idle'|'running'|'waiting'|'compacting'
function M.state(view)
  if view.compacting then
    return 'compacting'
  end
  local last = view.turns[#view.turns]
  if not last or last.ended then
    return 'idle'
  end
  return M.waiting_for(view) and 'waiting' or 'running'
end

return M
