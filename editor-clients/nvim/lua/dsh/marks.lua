---Marks: a proposed hunk as it shows in its buffer: old lines marked, new lines drawn below them, text untouched.
---
---Rules: marks move with the text, so that typing elsewhere changes nothing; nothing is written into the buffer.

local message = require('dsh.message')

local M = {}

local ns = vim.api.nvim_create_namespace('dsh.review')
local hints = vim.api.nvim_create_namespace('dsh.review.hint')

---@class dsh.Hunk
---@field id string
---@field oldText string
---@field newText string
---@field range { start: { line: integer }, ['end']: { line: integer } }

local CONTINUED = '↪ '
local LEAST_WIDTH = 8 -- narrower windows show nothing that could be read

local function lines_of(text)
  return text == '' and {} or vim.split((text:gsub('\r?\n$', '')), '\r?\n')
end
M.lines_of = lines_of

---The bytes of two lines that differ: where the difference begins, and how many bytes are the same after it.
---@param a string
---@param b string
---@return integer first, integer rest
function M.difference(a, b)
  local first, most = 0, math.min(#a, #b)
  while first < most and a:byte(first + 1) == b:byte(first + 1) do
    first = first + 1
  end
  first = first + vim.str_utf_start(a .. ' ', first + 1)
  local rest = 0
  while rest < most - first and a:byte(#a - rest) == b:byte(#b - rest) do
    rest = rest + 1
  end
  while rest > 0 and vim.str_utf_start(a, #a - rest + 1) ~= 0 do
    rest = rest - 1
  end
  return first, rest
end

-- A proposal may have thousands of lines, and a key waits: Neovim is asked only of what is not plain.

local function is_plain(text)
  return not text:find('[^ -~]')
end

local function width_of(text)
  return is_plain(text) and #text or vim.fn.strdisplaywidth(text)
end

---The last byte of what fits into so many columns.
---@param text string
---@param plain boolean
---@param first integer
---@param width integer columns
---@param least integer characters that are taken, though they be too wide
---@return integer
local function fitting(text, plain, first, width, least)
  if plain then
    return math.min(first + width - 1, #text)
  end
  local stop = math.min(first + 4 * width + 64, #text) -- what more would fit is rare enough to go on to the next row
  local characters = vim.fn.split(text:sub(first, stop), '\\zs')
  if stop < #text and characters[2] then
    table.remove(characters) -- it may not be whole
  end
  local last, taken = first - 1, 0
  for number, char in ipairs(characters) do
    taken = taken + width_of(char)
    if taken > width and number > least then
      break
    end
    last = last + #char
  end
  return last
end

---Cut what is wider than its window, since no key can scroll to the rest of a virtual line.
---@param chunks { [1]: string, [2]: string }[]
---@param width integer columns
---@return { [1]: string, [2]: string }[][] rows
local function wrap(chunks, width)
  local rows, column = { {} }, 0
  for _, chunk in ipairs(chunks) do
    local text, plain, first = chunk[1], is_plain(chunk[1]), 1
    local last = fitting(text, plain, first, width - column, 0)
    while last < #text do
      table.insert(rows[#rows], { text:sub(first, last), chunk[2] })
      rows[#rows + 1] = { { CONTINUED, 'DshMuted' } }
      column = vim.fn.strdisplaywidth(CONTINUED)
      first = last + 1
      last = fitting(text, plain, first, width - column, 1)
    end
    table.insert(rows[#rows], { text:sub(first, last), chunk[2] })
    column = column + width_of(text:sub(first, last))
  end
  table.insert(rows[#rows], { (' '):rep(width - column), 'DshReviewNew' })
  return rows
end

---One new line as virtual ones; what differs from the old line in its place stands out.
local function virtual(line, old, width, tab)
  line = message.readable(line)
  local first, rest = 0, #line
  if old then
    first, rest = M.difference(old, line)
  end
  local column, chunks = 0, {}
  local pieces = { { line:sub(1, first), 'DshReviewNew' }, { line:sub(first + 1, #line - rest), 'DshReviewNewText' } }
  pieces[3] = { line:sub(#line - rest + 1), 'DshReviewNew' }
  if not old then
    pieces = { { line, 'DshReviewNew' } }
  end
  for _, piece in ipairs(pieces) do
    local text = piece[1]:gsub('[^\t]*\t?', function(part) -- a tab in a virtual line is not as wide as in a real one
      local plain = part:gsub('\t$', '')
      column = column + width_of(plain)
      if plain ~= part then
        local gap = tab - column % tab
        column = column + gap
        plain = plain .. (' '):rep(gap)
      end
      return plain
    end)
    if text ~= '' then
      chunks[#chunks + 1] = { text, piece[2] }
    end
  end
  return wrap(chunks, width)
end

---The columns that every window has for the text of a buffer.
local function room(bufnr)
  local least = vim.o.columns
  for _, win in ipairs(vim.fn.win_findbuf(bufnr)) do
    least = math.min(least, vim.api.nvim_win_get_width(win) - vim.fn.getwininfo(win)[1].textoff)
  end
  return math.max(least, LEAST_WIDTH)
end

---@class dsh.Mark
---@field bufnr integer
---@field ids integer[] of the extmarks; the first holds the place
---@field old integer how many old lines there are
---@field above boolean? the new lines stand above their place
---@field redraw fun()? draws the new lines for the room that there is now

local function set(mark, row, column, options)
  mark.ids[#mark.ids + 1] = vim.api.nvim_buf_set_extmark(mark.bufnr, ns, row, column, options)
end

local function mark_old(mark, row, old, new)
  local options = { end_row = row + math.max(#old - 1, 0), invalidate = false, priority = 90 }
  if #old > 0 then
    options.line_hl_group = 'DshReviewOld'
  end
  set(mark, row, 0, options)
  for i, line in ipairs(#old == #new and old or {}) do
    local first, rest = M.difference(line, new[i])
    if first < #line - rest then
      local where = { end_col = #line - rest, hl_group = 'DshReviewOldText', priority = 210, strict = false }
      set(mark, row + i - 1, first, where)
    end
  end
end

---The new lines of a hunk as they fit into the windows of its buffer.
local function virtual_lines(bufnr, old, new)
  local lines, width = {}, room(bufnr)
  for i, line in ipairs(new) do
    vim.list_extend(lines, virtual(line, #old == #new and old[i] or nil, width, vim.bo[bufnr].tabstop))
  end
  return lines
end

local drawn = setmetatable({}, { __mode = 'k' }) ---@type table<dsh.Mark, true> that have virtual lines

---Show a hunk at a row, from 0.
---@param bufnr integer
---@param row integer
---@param hunk dsh.Hunk
---@return dsh.Mark
function M.show(bufnr, row, hunk)
  local old, new = lines_of(hunk.oldText), lines_of(hunk.newText)
  local mark = { bufnr = bufnr, ids = {}, old = #old }
  local last = vim.api.nvim_buf_line_count(bufnr) - 1
  mark_old(mark, math.min(row, last), old, new)
  if #new > 0 then
    local at = #old == 0 and math.min(row, last) or row + #old - 1
    mark.above = #old == 0 and row <= last
    set(mark, math.min(at, last), 0, { virt_lines = virtual_lines(bufnr, old, new), virt_lines_above = mark.above })
    mark.redraw = function()
      local id = mark.ids[#mark.ids]
      local place = vim.api.nvim_buf_get_extmark_by_id(bufnr, ns, id, {})
      local options = { id = id, virt_lines = virtual_lines(bufnr, old, new), virt_lines_above = mark.above }
      vim.api.nvim_buf_set_extmark(bufnr, ns, place[1], 0, options)
    end
    drawn[mark] = true
  end
  return mark
end

vim.api.nvim_create_autocmd({ 'WinResized', 'BufWinEnter' }, { -- other room makes other lines
  group = vim.api.nvim_create_augroup('dsh.marks', {}),
  callback = function()
    for mark in pairs(drawn) do
      if M.is_there(mark) then
        mark.redraw()
      end
    end
  end,
})

---Show lines that landed.
---@param bufnr integer
---@param row integer
---@param text string
---@return dsh.Mark
function M.show_landed(bufnr, row, text)
  local count = math.max(1, #lines_of(text))
  local last = vim.api.nvim_buf_line_count(bufnr) - 1
  local mark = { bufnr = bufnr, ids = {}, old = count }
  local first = math.min(row, last)
  set(mark, first, 0, { end_row = math.min(first + count - 1, last), line_hl_group = 'DshLanded', priority = 90 })
  return mark
end

---@param mark dsh.Mark
function M.clear(mark)
  drawn[mark] = nil
  if vim.api.nvim_buf_is_valid(mark.bufnr) then
    for _, id in ipairs(mark.ids) do
      vim.api.nvim_buf_del_extmark(mark.bufnr, ns, id)
    end
  end
end

---Whether a mark still stands; reading a file again takes all of them away.
---@param mark dsh.Mark
function M.is_there(mark)
  return vim.api.nvim_buf_is_loaded(mark.bufnr)
    and #vim.api.nvim_buf_get_extmark_by_id(mark.bufnr, ns, mark.ids[1], {}) > 0
end

---The rows of a mark as they are now, from 0; the last one included.
---@param mark dsh.Mark
---@return integer first, integer last
function M.rows(mark)
  local place = vim.api.nvim_buf_get_extmark_by_id(mark.bufnr, ns, mark.ids[1], { details = true })
  local first = place[1] or 0
  return first, math.max(first, (place[3] or {}).end_row or first)
end

---Where the old lines of a hunk stand: where they should, or at the place nearest to it.
---@param bufnr integer
---@param hunk dsh.Hunk
---@return integer? row from 0
function M.locate(bufnr, hunk)
  local old, wanted = lines_of(hunk.oldText), hunk.range.start.line
  local lines = vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)
  if #old == 0 then
    return wanted <= #lines and wanted or nil
  end
  local function stands_at(row)
    for i, line in ipairs(old) do
      local here = lines[row + i]
      if here ~= line and here ~= line .. '\r' then -- the return is in the text where 'fileformat' is "unix"
        return false
      end
    end
    return true
  end
  for distance = 0, #lines do
    for _, row in ipairs({ wanted - distance, wanted + distance }) do
      if row >= 0 and row + #old <= #lines and stands_at(row) then
        return row
      end
    end
  end
end

---Say at the end of a line what can be done there, and nowhere else in the buffer.
---@param bufnr integer
---@param row integer?
---@param text string?
function M.hint(bufnr, row, text)
  vim.api.nvim_buf_clear_namespace(bufnr, hints, 0, -1)
  if row and text then
    vim.api.nvim_buf_set_extmark(bufnr, hints, row, 0, {
      virt_text = { { '  ' .. text, 'DshMuted' } },
      virt_text_pos = 'eol',
      hl_mode = 'replace',
    })
  end
end

return M
