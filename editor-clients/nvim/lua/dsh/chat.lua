---Chat: the conversation as the lines of one buffer, kept up to date block by block.
---
---Rules: a change costs what changed, however long the conversation is; a window follows the stream only while its
---cursor is on the last line, and no other cursor moves; what is not shown in a window is not drawn.

local calm = require('dsh.calm')
local feed = require('dsh.feed')
local code = require('dsh.code')
local render = require('dsh.render')
local scratch = require('dsh.scratch')
local sight = require('dsh.sight')
local views = require('dsh.view')

local M = {}

local FRAME_MS = 33
local NAME = 'dsh://chat'
local ns = vim.api.nvim_create_namespace('dsh.chat')

---@class dsh.Placed: dsh.Block
---@field key dsh.Item|dsh.Turn what it shows
---@field kind string
---@field gap boolean an empty line comes first

local bufnr ---@type integer?
local view ---@type dsh.View? that the blocks were made from
local blocks = {} ---@type dsh.Placed[]
local index = {} ---@type table<table, integer> of each block by its key
local rows = 0 -- that the blocks take up; what streams comes below
local turn, item = 1, 1 -- the next one to place
local live = { parts = 0, shown = 0 } -- what is drawn of what streams: its parts, bytes of the last one
local unfolded = setmetatable({}, { __mode = 'k' }) ---@type table<table, boolean>
local dirty = {} ---@type table<table, boolean> blocks to draw again
local revealed = {} ---@type table<integer, integer> lines that windows were scrolled to; what comes is followed again
local due = false

local function is_shown()
  return bufnr ~= nil and vim.api.nvim_buf_is_valid(bufnr) and #vim.fn.win_findbuf(bufnr) > 0
end

local function write(first, last, lines)
  vim.bo[bufnr].modifiable = true
  vim.api.nvim_buf_set_lines(bufnr, first, last, false, lines)
  vim.bo[bufnr].modifiable = false
end

---A block's lines with the empty one before it.
local function lines_of(block)
  return block.gap and vim.list_extend({ '' }, block.lines) or block.lines
end

local function height(block)
  return #block.lines + (block.gap and 1 or 0)
end

---The first row of a block.
local function row_of(number)
  local row = 0
  for i = 1, number - 1 do
    row = row + height(blocks[i])
  end
  return row
end

---Colour the code of a text, a fence at a time, so that no key has to wait for it.
local function colour_soon(block)
  local fences, next_one = code.fences(block.lines), 1
  local function colour()
    local number, fence = index[block.key], fences[next_one]
    if not fence or blocks[number] ~= block or not vim.api.nvim_buf_is_valid(bufnr) then
      return
    end
    next_one = next_one + 1
    local from = row_of(number) + (block.gap and 1 or 0)
    for _, look in ipairs(code.looks(block.lines, fence)) do
      local where =
        { end_row = from + look[3], end_col = look[4], hl_group = look[5], strict = false, priority = 110 }
      vim.api.nvim_buf_set_extmark(bufnr, ns, from + look[1], look[2], where)
    end
    vim.defer_fn(colour, 1)
  end
  if #fences > 0 then
    vim.defer_fn(colour, 1)
  end
end

local function decorate(block, first)
  local from = first + (block.gap and 1 or 0)
  for _, look in ipairs(block.looks) do
    local row, start, stop, group = from + look[1], look[2], look[3], look[4]
    if stop == -1 then
      vim.api.nvim_buf_set_extmark(bufnr, ns, row, 0, { line_hl_group = group })
    else
      local options = { end_col = stop, hl_group = group, strict = false, priority = 200 }
      vim.api.nvim_buf_set_extmark(bufnr, ns, row, start, options)
    end
  end
  for _, row in ipairs(block.bars) do
    vim.api.nvim_buf_set_extmark(bufnr, ns, from + row, 0, {
      virt_text = { { '▎ ', 'DshBar' } },
      virt_text_pos = 'inline',
      right_gravity = false,
    })
  end
  if block.kind == 'assistant' then
    colour_soon(block)
  end
  for _, row in ipairs(block.fences) do
    vim.api.nvim_buf_set_extmark(bufnr, ns, from + row, 0, { conceal_lines = '' })
  end
end

-- Placing blocks ------------------------------------------------------------------------------------------------

local function place(key, kind, block)
  local before = blocks[#blocks]
  block.key, block.kind, block.gap = key, kind, render.apart(before and before.kind, kind)
  blocks[#blocks + 1] = block
  index[key] = #blocks
  return block
end

---Place what has come since, and return it.
local function place_new()
  local new = {}
  while view.turns[turn] do
    local now = view.turns[turn]
    while now.items[item] do
      local key = now.items[item]
      new[#new + 1] = place(key, key.kind, render.item(key, unfolded[key]))
      item = item + 1
    end
    local ended = not index[now] and render.turn_end(now)
    if ended then
      new[#new + 1] = place(now, 'end', ended)
    end
    if not view.turns[turn + 1] then
      break
    end
    turn, item = turn + 1, 1
  end
  return new
end

---Draw a block again in its place.
local function redraw(key)
  local number = index[key]
  local old = number and blocks[number]
  if not old or old.kind == 'end' then
    return
  end
  local block = render.item(key, unfolded[key])
  block.key, block.kind, block.gap = key, old.kind, old.gap
  local first = row_of(number)
  vim.api.nvim_buf_clear_namespace(bufnr, ns, first, first + height(old))
  write(first, first + height(old), lines_of(block))
  blocks[number] = block
  rows = rows + height(block) - height(old)
  decorate(block, first)
end

---Put lines in the place of all below the blocks, touching only those that differ.
local function put_tail(lines)
  local old = vim.api.nvim_buf_get_lines(bufnr, rows, -1, false)
  local same = 0
  while same < #old and same < #lines and old[same + 1] == lines[same + 1] do
    same = same + 1
  end
  if same < #old or same < #lines then
    write(rows + same, -1, vim.list_slice(lines, same + 1))
  end
end

---Draw only what has been added to the text that streams; false when more than that has changed.
local function append_live(parts)
  local last = parts[#parts]
  if not last or last.kind ~= 'text' or live.parts ~= #parts or #last.text < live.shown then
    return false
  end
  local added = last.text:sub(live.shown + 1)
  live.shown = #last.text
  if added ~= '' then
    local row = vim.api.nvim_buf_line_count(bufnr) - 1
    local column = #vim.api.nvim_buf_get_lines(bufnr, row, row + 1, false)[1]
    vim.bo[bufnr].modifiable = true
    vim.api.nvim_buf_set_text(bufnr, row, column, row, column, vim.split(added, '\n', { plain = true }))
    vim.bo[bufnr].modifiable = false
  end
  return true
end

local function draw_tail(new)
  local parts = view.live
  if #new == 0 and append_live(parts) then
    return
  end
  vim.api.nvim_buf_clear_namespace(bufnr, ns, rows, -1)
  local lines = {}
  for _, block in ipairs(new) do
    vim.list_extend(lines, lines_of(block))
  end
  local streaming = render.live(parts)
  streaming.gap = #parts > 0 and #blocks > 0
  put_tail(vim.list_extend(lines, #parts > 0 and lines_of(streaming) or {}))
  for _, block in ipairs(new) do
    decorate(block, rows)
    rows = rows + height(block)
  end
  if #parts > 0 then
    decorate(streaming, rows)
  end
  local last = parts[#parts]
  live = { parts = #parts, shown = last and last.kind == 'text' and #last.text or 0 }
end

-- Drawing -------------------------------------------------------------------------------------------------------

---The windows whose cursor is on the last line, or was taken from it to show what was asked for: they follow.
local function followers()
  local last, found = vim.api.nvim_buf_line_count(bufnr), {}
  for _, win in ipairs(vim.fn.win_findbuf(bufnr)) do
    local is_selecting = win == vim.api.nvim_get_current_win() and vim.fn.mode():match('^[vV\22]')
    local line = vim.api.nvim_win_get_cursor(win)[1]
    local is_back = revealed[win] == line and view and views.waiting_for(view) ~= 'approval'
    if (line == last or is_back) and not is_selecting then
      found[#found + 1] = win
    end
  end
  return found
end

local function hint()
  if #blocks == 0 and #view.live == 0 then
    local text = feed.state.ended and 'The server has ended. R starts it again.' or 'Ask below, or :Dsh ask.'
    vim.api.nvim_buf_set_extmark(bufnr, ns, 0, 0, { virt_text = { { text, 'DshMuted' } }, virt_text_pos = 'overlay' })
  end
end

---Forget what is drawn: another session is shown, or the same one anew.
local function reset(next_view)
  view, blocks, index, rows, turn, item, dirty = next_view, {}, {}, 0, 1, 1, {}
  live = { parts = 0, shown = 0 }
  vim.api.nvim_buf_clear_namespace(bufnr, ns, 0, -1)
  write(0, -1, {})
end

---Draw what has changed, now.
function M.draw()
  due = false
  if not is_shown() then
    return
  end
  M.buffer() -- whole again, should it have been read anew
  local follow = followers()
  local current = feed.view()
  if current ~= view then
    reset(current)
    follow = vim.fn.win_findbuf(bufnr)
  end
  local changed = next(dirty) ~= nil
  for key in pairs(dirty) do
    redraw(key)
  end
  dirty = {}
  local new = place_new()
  draw_tail(new)
  hint()
  local last = vim.api.nvim_buf_line_count(bufnr)
  for _, win in ipairs(follow) do
    vim.api.nvim_win_set_cursor(win, { last, 0 })
  end
  if changed or #new > 0 then
    feed.emit('drawn')
  end
end

---Draw soon: many changes make one drawing.
local function draw_soon()
  if not due then
    due = true
    vim.defer_fn(function()
      calm.run(M.draw)
    end, FRAME_MS)
  end
end

-- Reading in it -------------------------------------------------------------------------------------------------

---The block at a row, from 0, and the row within it.
---@param row integer
---@return dsh.Placed?, integer?
function M.block_at(row)
  local first = 0
  for _, block in ipairs(blocks) do
    if row < first + height(block) then
      return block, row - first - (block.gap and 1 or 0)
    end
    first = first + height(block)
  end
end

local function windows_here()
  return vim.tbl_filter(function(win)
    return vim.api.nvim_win_get_tabpage(win) == vim.api.nvim_get_current_tabpage()
  end, is_shown() and vim.fn.win_findbuf(bufnr) or {})
end

---The lines of an item, from 1, that can be read in this tab page, and how many it has.
---@param key dsh.Item
---@return table<integer, true>, integer
function M.visible(key)
  local number, found = index[key], {}
  if not number then
    return found, 0
  end
  local first, count = row_of(number), height(blocks[number])
  for _, win in ipairs(windows_here()) do
    for _, line in ipairs(sight.lines(win)) do
      found[line - first] = line > first and line <= first + count or nil
    end
  end
  return found, count
end

---Scroll to the first line of an item that was not seen yet.
---@param key dsh.Item
---@param seen table<integer, true> lines, from 1
function M.reveal(key, seen)
  local number, line = index[key], 1
  while seen[line] do
    line = line + 1
  end
  if number and line <= height(blocks[number]) then
    for _, win in ipairs(windows_here()) do
      vim.api.nvim_win_set_cursor(win, { row_of(number) + line, 0 })
      vim.api.nvim_win_call(win, function()
        vim.cmd('normal! zt')
      end)
      revealed[win] = row_of(number) + line
    end
  end
end

---All blocks, each with its first row, from 0, empty lines left out.
---@return { block: dsh.Placed, row: integer }[]
function M.blocks()
  local found, row = {}, 0
  for _, block in ipairs(blocks) do
    found[#found + 1] = { block = block, row = row + (block.gap and 1 or 0) }
    row = row + height(block)
  end
  return found
end

---Whether a block is unfolded.
---@param block dsh.Placed
function M.is_unfolded(block)
  return unfolded[block.key] or false
end

---Unfold or fold a block; its first row, from 0.
---@param block dsh.Placed
---@param open boolean
---@return integer
function M.set_unfolded(block, open)
  if block.folds and open ~= M.is_unfolded(block) then
    unfolded[block.key] = open
    redraw(block.key)
  end
  return row_of(index[block.key]) + (block.gap and 1 or 0)
end

-- The buffer ----------------------------------------------------------------------------------------------------

---The conversation's buffer.
---@return integer
function M.buffer()
  if not scratch.is_intact(bufnr) then
    local options = { bufhidden = 'hide', undolevels = -1, modifiable = false, filetype = 'dsh' }
    view = nil
    bufnr = scratch.buffer(NAME, options, function(made, group)
      require('dsh.reader').map(made)
      vim.api.nvim_create_autocmd('BufWinEnter', { group = group, buffer = made, callback = draw_soon })
    end)
  end
  return bufnr
end

feed.on('event', function(_, ...)
  for _, changed in pairs({ ... }) do
    dirty[changed] = true
  end
  draw_soon()
end)
for _, name in ipairs({ 'session', 'exit', 'start' }) do
  feed.on(name, draw_soon)
end

return M
