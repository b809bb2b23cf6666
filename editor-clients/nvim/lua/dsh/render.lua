---Render: an item of the view as lines of the conversation, with their looks and what they lead to.
---
---Rules: pure; a line never holds more than one thing to look at; what is long is one line until it is unfolded; what
---a tool is comes from its card alone.

local keys = require('dsh.keys')
local message = require('dsh.message')

local M = {}

---@class dsh.Block
---@field lines string[]
---@field looks { [1]: integer, [2]: integer, [3]: integer, [4]: string }[]
---row, first byte, end (-1: whole row) and group
---@field bars integer[] rows that begin with the bar of what the user said
---@field fences integer[] rows that Markdown needs and nobody wants to see
---@field links table<integer, { uri: string?, path: string?, line: integer? }> where a line leads
---@field folds boolean whether it unfolds

local MARKS = {
  asked = { '○', 'DshMuted' },
  running = { '●', 'DshRunning' },
  done = { '✓', 'DshDone' },
  failed = { '✗', 'DshFailed' },
}

local OUTCOMES = {
  landed = { '✓', 'DshDone', 'landed' },
  notLanded = { '✗', 'DshFailed', 'not written' },
  unconfirmed = { '?', 'DshWaiting', 'not confirmed' },
  conflict = { '✗', 'DshFailed', 'in conflict with your own change' },
  rejected = { '✗', 'DshMuted', 'rejected' },
  cancelled = { '–', 'DshMuted', 'cancelled' },
}

local APPROVED = {
  allowedOnce = { '✓', 'DshDone', 'allowed once' },
  allowedSession = { '✓', 'DshDone', 'allowed for this session' },
  rejected = { '✗', 'DshMuted', 'refused' },
  cancelled = { '–', 'DshMuted', 'cancelled' },
  unavailable = { '–', 'DshMuted', 'not answered' },
}

---@return dsh.Block
local function new_block()
  return { lines = {}, looks = {}, bars = {}, fences = {}, links = {}, folds = false }
end

---Add one line; `parts` are texts, or texts with a group.
local function add(block, ...)
  local line, row = '', #block.lines
  for _, part in ipairs({ ... }) do
    local text, group = part, nil
    if type(part) == 'table' then
      text, group = part[1], part[2]
    end
    text = text:gsub('\n', ' ')
    if group and text ~= '' then
      block.looks[#block.looks + 1] = { row, #line, #line + #text, group }
    end
    line = line .. text
  end
  block.lines[row + 1] = line
  return row
end

local function one_line(text)
  return vim.trim((message.readable(text):gsub('%s+', ' ')))
end

local function split(text)
  return vim.split(message.readable(text), '\n', { plain = true })
end

---A fence that no line of the text ends.
local function fence_for(text)
  local fence = '```'
  while text:find(fence, 1, true) do
    fence = fence .. '`'
  end
  return fence
end

local DIFF = { ['+'] = 'DshAdded', ['-'] = 'DshRemoved', ['@'] = 'DshMuted' }

local function add_fenced(block, text, language)
  local fence = fence_for(text)
  block.fences[#block.fences + 1] = add(block, fence .. language)
  for _, line in ipairs(split((text:gsub('\n$', '')))) do
    local row = add(block, line)
    local group = language == 'diff' and DIFF[line:sub(1, 1)]
    if group then
      block.looks[#block.looks + 1] = { row, 0, -1, group }
    end
  end
  block.fences[#block.fences + 1] = add(block, fence)
end

---Add lines that are no Markdown, whatever they look like: taken for that, a part of them would be hidden.
local function add_plain(block, lines, group)
  local fence = fence_for(table.concat(lines, '\n'))
  block.fences[#block.fences + 1] = add(block, fence .. 'text')
  for _, line in ipairs(lines) do
    add(block, { line, group })
  end
  block.fences[#block.fences + 1] = add(block, fence)
end

---Add lines of Markdown; a fence that they leave open ends with them.
---@return integer[] rows of the lines
local function add_markdown(block, text, group)
  local rows, open = {}, nil ---@type integer[], string?
  for _, line in ipairs(split(text)) do
    rows[#rows + 1] = add(block, group and { line, group } or line)
    if not open then
      open = line:match('^%s*(```+)')
    elseif line:match('^%s*' .. open .. '%s*$') then
      open = nil
    end
  end
  if open then
    block.fences[#block.fences + 1] = add(block, open)
  end
  return rows
end

---The diff of one hunk.
---@return string
function M.diff(hunk)
  local lines = {}
  for _, side in ipairs({ { '-', hunk.oldText }, { '+', hunk.newText } }) do
    for _, line in ipairs(side[2] == '' and {} or split((side[2]:gsub('\n$', '')))) do
      lines[#lines + 1] = side[1] .. line
    end
  end
  return table.concat(lines, '\n')
end

-- Items ---------------------------------------------------------------------------------------------------------

local ITEMS = {}

function ITEMS.user(block, item)
  block.bars = add_markdown(block, item.text, 'DshUser')
end

function ITEMS.notice(block, item, unfolded)
  local first = one_line(item.text)
  block.folds = item.text:find('\n') ~= nil or #first > 100
  add(block, { '· ', 'DshMuted' }, { unfolded and 'Context' or vim.fn.strcharpart(first, 0, 100), 'DshMuted' })
  if unfolded then
    add_fenced(block, item.text, 'text')
  end
end

function ITEMS.assistant(block, item)
  add_markdown(block, (item.text:gsub('\n+$', '')))
  if item.refused then
    add(block, { '(the provider refused to go on)', 'DshFailed' })
  end
end

function ITEMS.thinking(block, item, unfolded)
  block.folds = true
  local _, words = item.text:gsub('%S+', '')
  local size = words == 1 and '1 word' or ('%d words'):format(words)
  add(block, { unfolded and '▾ ' or '▸ ', 'DshMuted' }, { ('Thinking · %s'):format(size), 'DshMuted' })
  if unfolded then
    for _, line in ipairs(split(vim.trim(item.text))) do
      add(block, { '  ' .. line, 'DshThinking' })
    end
  end
end

function ITEMS.tool(block, item, unfolded)
  local mark, card = MARKS[item.state], item.card or {}
  local parts = { { mark[1] .. ' ', mark[2] }, { one_line(item.title), 'DshTool' } }
  local detail = card.kind ~= 'diff' and card.detail or nil -- of an edit, its review says more
  local more = item.progress and one_line(item.progress) or detail and one_line(detail)
  if more and more ~= '' then
    parts[#parts + 1] = { '  ' .. vim.fn.strcharpart(more, 0, 80), 'DshMuted' }
  end
  local row = add(block, unpack(parts))
  if card.path then
    block.links[row] = { path = card.path }
  end
  local body = card.body or item.result
  block.folds = body ~= nil and body ~= '' and card.kind ~= 'todo'
  if card.kind == 'todo' then -- what there is to do is short, and the reason why it was written
    for _, line in ipairs(split(body)) do
      add(block, { '  ' .. line, 'DshMuted' })
    end
  elseif unfolded and block.folds then
    add_fenced(block, body, card.kind == 'diff' and 'diff' or 'text')
  end
end

---What became of a hunk: a mark, its group, words.
local function outcome_of(hunk)
  if hunk.undone then
    return { '↶', 'DshMuted', 'undone' }
  elseif hunk.undoes then
    return {
      '↶',
      'DshMuted',
      hunk.landed and 'taken back' or hunk.outcome and 'could not be taken back' or 'is taken back',
    }
  elseif hunk.landed then
    return OUTCOMES.landed
  end
  return OUTCOMES[hunk.outcome] or { '±', 'DshWaiting', 'waits for your review' }
end

local function name_of(uri)
  return vim.fn.fnamemodify(vim.uri_to_fname(uri), ':~:.')
end

---@type table<string, fun(file: table, hunk: table): string>
local PLACES = {
  edit = function(file, hunk)
    return ('%s:%d'):format(name_of(file.uri), hunk.line)
  end,
  create = function(file)
    return name_of(file.uri) .. ' (new)'
  end,
  rename = function(file)
    return ('%s → %s'):format(name_of(file.uri), name_of(file.newUri))
  end,
  delete = function(file)
    return name_of(file.uri) .. ' (deleted)'
  end,
}

function ITEMS.review(block, item, unfolded)
  block.folds = true
  for _, file in ipairs(item.files) do
    for _, hunk in ipairs(file.hunks) do
      local outcome = outcome_of(hunk)
      local place = (PLACES[file.kind] or PLACES.edit)(file, hunk)
      local parts = { { outcome[1] .. ' ', outcome[2] }, { place, 'DshLink' }, { '  ' .. outcome[3], 'DshMuted' } }
      if hunk.comment then
        parts[#parts + 1] = { ': ' .. one_line(hunk.comment), 'DshMuted' }
      end
      local gone = file.kind == 'rename' and hunk.landed and file.newUri or file.uri
      block.links[add(block, unpack(parts))] = { uri = gone, line = hunk.line }
      local diff = M.diff(hunk)
      if diff ~= '' and (unfolded or not (hunk.outcome or hunk.landed or hunk.undoes)) then
        add_fenced(block, diff, 'diff')
      end
    end
  end
end

local LONGEST = 400 -- characters of a command in one line: a line that is higher than its window cannot be read

---The lines of what is asked for; what is on lines of its own must not look like one command.
local function effect_lines(effects)
  local lines = {}
  for _, effect in ipairs(effects) do
    for _, line in ipairs(split(effect)) do
      for first = 0, math.max(vim.fn.strchars(line) - 1, 0), LONGEST do
        lines[#lines + 1] = (first == 0 and '  ' or '  ↪ ') .. vim.fn.strcharpart(line, first, LONGEST)
      end
    end
  end
  return lines
end

function ITEMS.approval(block, item, unfolded)
  local outcome = item.outcome and APPROVED[item.outcome] or nil
  local mark = outcome or { '?', 'DshWaiting', 'waits for your permission' }
  local parts = { { mark[1] .. ' ', mark[2] }, { item.tool, 'DshTool' }, { '  ' .. mark[3], 'DshMuted' } }
  if item.comment then
    parts[#parts + 1] = { ': ' .. one_line(item.comment), 'DshMuted' }
  end
  add(block, unpack(parts))
  block.folds = outcome ~= nil
  if not outcome or unfolded then
    add_plain(block, effect_lines(item.effects), outcome and 'DshMuted' or 'DshTool')
    if item.reason then
      add(block, { '  ' .. one_line(item.reason), 'DshMuted' })
    end
  end
  if not outcome then
    add(block, { '  ' .. keys.hint('approval'), 'DshMuted' })
  end
end

function ITEMS.question(block, item)
  local mark = not item.closed and { '? ', 'DshWaiting' }
    or item.answer and { '✓ ', 'DshDone' }
    or { '– ', 'DshMuted' }
  add(block, mark, one_line(item.text))
  if item.answer then
    add(block, { '  ' .. one_line(item.answer), 'DshUser' })
  elseif item.closed then
    add(block, { '  not answered', 'DshMuted' })
  else
    for _, option in ipairs(item.options) do
      add(block, { '  ○ ', 'DshMuted' }, one_line(option))
    end
    add(block, { '  ' .. keys.hint('question'), 'DshMuted' })
  end
end

function ITEMS.failure(block, item)
  add(block, { ('✗ attempt %d: %s'):format(item.attempt, one_line(item.message)), 'DshFailed' })
  if item.waits then
    local seconds = math.ceil((item.delayMs or 0) / 1000)
    local words = ('  try %d of %d in %d s · :Dsh retry tries now'):format(item.retry, item.maxRetries, seconds)
    add(block, { words, 'DshMuted' })
  end
end

---A kind that a newer server may have; its name is better than nothing.
local function unknown(block, item)
  add(block, { '· ' .. one_line(item.title or item.text or item.kind), 'DshMuted' })
end

local LOOSE = { user = true, assistant = true } -- set apart by empty lines

---Whether an empty line stands between two kinds of block.
---@param before string?
---@param after string
function M.apart(before, after)
  return before ~= nil and (LOOSE[before] or LOOSE[after] or after == 'end') or false
end

---@param item dsh.Item
---@param unfolded boolean?
---@return dsh.Block
function M.item(item, unfolded)
  local block = new_block();
  (ITEMS[item.kind] or unknown)(block, item, unfolded or false)
  return block
end

local ENDS = {
  aborted = 'cancelled',
  interrupted = 'interrupted: the server went away',
  blocked = 'stopped by a rule',
  ['max-tokens'] = 'stopped: the answer reached its token limit',
}

---How a turn ended, where that is worth a line.
---@param turn dsh.Turn
---@return dsh.Block?
function M.turn_end(turn)
  if not turn.ended or turn.ended == 'completed' then
    return nil
  end
  local block = new_block()
  if turn.ended == 'error' then
    add(block, { '✗ ' .. one_line(turn.message or 'failed'), 'DshFailed' })
    add(block, { '  :Dsh retry runs it again', 'DshMuted' })
  else
    local words = ENDS[turn.ended] or turn.ended
    add(block, { ('– %s%s'):format(words, turn.message and ': ' .. one_line(turn.message) or ''), 'DshMuted' })
  end
  return block
end

---What still streams.
---@param live table[]
---@return dsh.Block
function M.live(live)
  local block = new_block()
  for i, part in ipairs(live) do
    local before = live[i - 1]
    if before and (part.kind == 'text' or before.kind == 'text') then
      add(block, '') -- as it will stand when it is whole
    end
    if part.kind == 'text' then
      for _, line in ipairs(split(part.text)) do
        add(block, line)
      end
    elseif part.kind == 'thinking' then
      add(block, { '▸ Thinking…', 'DshMuted' })
    else
      add(block, { '○ …', 'DshMuted' })
    end
  end
  return block
end

return M
