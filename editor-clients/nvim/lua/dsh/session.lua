---Session: the pure fold of the event stream into what a screen shows.
---
---Rules: the same view as the reference, `dsh_lsp/session/view.py`, key by key, which recorded transcripts prove; no
---editor call, no state outside of the view; an event that it does not know changes nothing.

local views = require('dsh.view')

local M = {}

-- Folding -------------------------------------------------------------------------------------------------------

local function text_of(content)
  local texts = {}
  for _, block in ipairs(content) do
    texts[#texts + 1] = block.text or text_of(block.content or {})
  end
  return table.concat(texts, '\n')
end

local function show(item, card)
  if card then
    item.card, item.title = card, card.title
  end
end

local function add_item(view, item)
  local items = views.turn(view).items
  items[#items + 1] = item
  return item
end

local function tool_item(call_id, name, arguments)
  return { kind = 'tool', callId = call_id, name = name, arguments = arguments, title = name, state = 'asked' }
end

local function splice(list, start, removed, inserted)
  local kept = { unpack(list, 1, math.min(start, #list)) }
  vim.list_extend(kept, inserted)
  vim.list_extend(kept, list, math.min(start, #list) + removed + 1)
  return kept
end

local function take_answer(view, data)
  view.live = {}
  local turn, message = views.turn(view), data.message
  for _, block in ipairs(message.content) do
    if block.type == 'tool-call' then
      add_item(view, tool_item(block.id, block.name, block.arguments))
    else
      add_item(view, {
        kind = block.type == 'text' and 'assistant' or 'thinking',
        id = message.id,
        text = block.text,
        interrupted = data.interrupted == true,
        refused = data.refused == true,
      })
    end
  end
  local usage = data.usage
  if usage then
    local sum, cached = view.usage, usage.cacheReadTokens or 0
    sum.input, sum.output = sum.input + usage.inputTokens, sum.output + usage.outputTokens
    sum.cacheRead = sum.cacheRead + cached
    sum.contextTokens = usage.inputTokens + usage.outputTokens + cached + (usage.cacheWriteTokens or 0)
  end
  return turn
end

---Keep a call's first result: a later one is what a model reads in its place, to save room.
local function take_result(view, data, card)
  local touched
  for _, block in ipairs(data.message.content) do
    local call = block.type == 'tool-result'
      and views.find(view, 'tool', function(item)
        return item.callId == block.toolCallId
      end)
    if call and not call.result then
      call.state, call.result = block.isError and 'failed' or 'done', text_of(block.content)
      call.progress = nil
      show(call, card)
      touched = call
    end
  end
  return touched
end

local function take_review(view, data)
  local files = {}
  for _, file in ipairs(data.files) do
    local hunks = {}
    for _, hunk in ipairs(file.hunks) do
      hunks[#hunks + 1] = {
        id = hunk.id,
        line = hunk.range.start.line + 1,
        oldText = hunk.oldText,
        newText = hunk.newText,
        landed = false,
        undone = false,
        undoes = hunk.undoes,
      }
    end
    files[#files + 1] = { uri = file.uri, kind = file.kind, newUri = file.newUri, hunks = hunks }
  end
  return add_item(view, { kind = 'review', proposal = data.proposal, files = files })
end

---Change the hunks of a proposal that are named, and return its item.
local function change_hunks(view, proposal, changes)
  local review = views.find(view, 'review', function(item)
    return item.proposal == proposal
  end)
  for _, hunk in ipairs(review and views.hunks(review) or {}) do
    for _, change in ipairs(changes) do
      if change.id == hunk.id then
        change.apply(hunk)
      end
    end
  end
  return review
end

local function decide_hunks(view, data)
  local changes = vim.tbl_map(function(decided)
    return {
      id = decided.id,
      apply = function(hunk)
        hunk.outcome, hunk.comment = decided.outcome, decided.comment
        hunk.newText = decided.text or hunk.newText
      end,
    }
  end, data.hunks)
  return change_hunks(view, data.proposal, changes)
end

---Note that a hunk of an earlier review is not in its document any more.
local function take_back(view, hunk_id)
  local review = views.find(view, 'review', function(item)
    return vim.iter(views.hunks(item)):any(function(hunk)
      return hunk.id == hunk_id
    end)
  end)
  for _, hunk in ipairs(review and views.hunks(review) or {}) do
    hunk.undone = hunk.undone or hunk.id == hunk_id
  end
  return review
end

local function land_hunk(view, data)
  local undone
  local function apply(hunk)
    hunk.line, hunk.landed = data.range.start.line + 1, true
    undone = hunk.undoes and take_back(view, hunk.undoes) or undone
  end
  local review = change_hunks(view, data.proposal, { { id = data.hunk, apply = apply } })
  return review, undone
end

local function last_failure(view, step)
  return views.find(view, 'failure', function(item)
    return item.step == step
  end)
end

local function take_stream(view, data)
  local last = view.live[#view.live]
  if last and last.step == data.step and last.attempt == data.attempt and last.block == data.block then
    last.text = last.text .. data.text
  else
    view.live[#view.live + 1] =
      { step = data.step, attempt = data.attempt, block = data.block, kind = data.kind, text = data.text }
  end
end

---@type table<string, fun(view: dsh.View, data: table, card: table?): dsh.Item|dsh.Turn|nil, dsh.Item?>
local FOLDS = {
  ['turn/start'] = function(view, data)
    view.turns[#view.turns + 1] = { turn = data.turn, items = {}, step = 0 }
    return view.turns[#view.turns]
  end,
  ['step/start'] = function(view, data)
    views.turn(view).step = data.step
    view.live = {}
  end,
  ['turn/end'] = function(view, data)
    local turn, reason = views.turn(view), data.reason
    turn.ended = reason.kind
    for _, item in ipairs(turn.items) do
      if item.kind == 'failure' then
        item.waits = false
      end
    end
    if reason.kind == 'error' then
      turn.message = reason.error.message
    elseif reason.kind == 'aborted' then
      turn.message = reason.reason.reason
    end
    view.live = {}
    return turn
  end,
  ['user/message'] = function(view, data)
    local kind = data.source.kind == 'user' and 'user' or 'notice'
    local summary = data.source.summary
    local text = summary and summary ~= '' and summary or text_of(data.content)
    return add_item(view, { kind = kind, id = data.id, text = text, interrupted = false, refused = false })
  end,
  ['assistant/message'] = take_answer,
  ['assistant/attempt'] = function(view, data)
    view.live = {}
    local failure = data.failure
    if failure then
      local item = { kind = 'failure', step = data.step, attempt = data.attempt, waits = false }
      item.code, item.message = failure.code, failure.message
      return add_item(view, item)
    end
  end,
  ['llm/retry'] = function(view, data)
    local failed = last_failure(view, data.step)
    if failed then
      failed.retry, failed.maxRetries, failed.delayMs = data.retry, data.maxRetries, data.delayMs
      failed.waits = true
    end
    return failed
  end,
  ['llm/retry-started'] = function(view, data)
    local failed = last_failure(view, data.step)
    if failed then
      failed.waits = false
    end
    return failed
  end,
  ['assistant/stream'] = take_stream,
  ['tool/call'] = function(view, data, card)
    local call = views.find(view, 'tool', function(item)
      return item.callId == data.callId and item.state == 'asked'
    end) or add_item(view, tool_item(data.callId, data.name, data.arguments))
    call.state = 'running'
    show(call, card)
    return call
  end,
  ['tool/progress'] = function(view, data)
    local call = views.find(view, 'tool', function(item)
      return item.callId == data.callId
    end)
    if call then
      call.progress = data.text
    end
    return call
  end,
  ['tool/result'] = take_result,
  ['review/opened'] = take_review,
  ['review/decided'] = decide_hunks,
  ['edit/landed'] = land_hunk,
  ['approval/asked'] = function(view, data)
    return add_item(view, {
      kind = 'approval',
      id = data.id,
      callId = data.callId,
      tool = data.toolName,
      effects = vim.tbl_map(function(effect)
        return effect.kind .. ' ' .. effect.detail
      end, data.effects),
      reason = data.reason,
    })
  end,
  ['approval/decided'] = function(view, data)
    local asked = views.find(view, 'approval', function(item)
      return item.id == data.id
    end)
    if asked then
      asked.outcome, asked.comment = data.outcome.kind, data.outcome.comment
    end
    return asked
  end,
  ['question/asked'] = function(view, data)
    local options = data.options or {}
    local item = { kind = 'question', id = data.id, text = data.text, options = options, closed = false }
    item.freeText = data.freeText == true or #options == 0
    return add_item(view, item)
  end,
  ['question/answered'] = function(view, data)
    local asked = views.find(view, 'question', function(item)
      return item.id == data.id
    end)
    if asked then
      asked.closed, asked.answer = true, data.answer
    end
    return asked
  end,
  ['agent/inbox/spliced'] = function(view, data)
    local key = data.target == 'next-turn' and 'nextTurn' or 'nextStep'
    local inserted = vim.tbl_map(function(message)
      return { id = message.id, text = text_of(message.content) }
    end, data.inserted or {})
    view.queue[key] = splice(view.queue[key], data.start, data.removedCount or 0, inserted)
  end,
  ['request/context'] = function(view, data)
    view.provider, view.model = data.provider, data.model
    view.usage.contextWindow = data.contextWindow
  end,
  ['compaction/start'] = function(view)
    view.compacting = true
  end,
  ['compaction/end'] = function(view, data)
    view.compacting = false
    view.usage.contextTokens = data.tokensAfter or view.usage.contextTokens
  end,
  ['model/selected'] = function(view, data)
    view.provider, view.model = data.provider, data.name
  end,
  ['permission/preset'] = function(view, data)
    view.mode = data.preset
  end,
  ['session/title'] = function(view, data)
    view.title = data.title
  end,
}

---Take one more value of the event stream, and return the items or the turn that it changed, if there are any.
---@param view dsh.View
---@param value table
---@return dsh.Item|dsh.Turn|nil
---@return dsh.Item? another one
function M.add(view, value)
  local fold = FOLDS[value.type]
  if fold then
    return fold(view, value.data, value.card)
  end
end

return M
