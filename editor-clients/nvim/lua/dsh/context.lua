---Context: what the user points at, as the items that go with a message.

local M = {}

---The columns of the visual selection, if a range is just that and not made of whole lines.
local function selected(range)
  local from, to = vim.fn.getpos("'<"), vim.fn.getpos("'>")
  if range.count < 2 or vim.fn.visualmode() ~= 'v' or from[2] ~= range.line1 or to[2] ~= range.line2 then
    return nil
  end
  local last = vim.o.selection == 'exclusive' and to[3] - 1 or to[3]
  return from[3] - 1, last -- the first byte, and the last one, counted from 1
end

local function utf16(line, byte)
  return vim.str_utfindex(line, 'utf-16', math.min(byte, #line), false)
end

---The item for a range of a buffer: its place where the server can see it, else its text.
---@param bufnr integer
---@param range { line1: integer, line2: integer, count: integer } from 1, with the last; how many lines were named
---@return table item, string name
function M.of_range(bufnr, range)
  local lines = vim.api.nvim_buf_get_lines(bufnr, range.line1 - 1, range.line2, false)
  local path = vim.api.nvim_buf_get_name(bufnr)
  local name = path == '' and '[No Name]' or vim.fn.fnamemodify(path, ':~:.')
  local shown = range.line1 == range.line2 and ('%s:%d'):format(name, range.line1)
    or ('%s:%d-%d'):format(name, range.line1, range.line2)
  if not require('dsh.buffers').is_document(bufnr) then
    local text = table.concat(lines, '\n')
    return { uri = path == '' and 'untitled:' .. bufnr or vim.uri_from_bufnr(bufnr), text = text }, shown
  end
  local first, last = selected(range)
  if not first and range.line1 == 1 and range.line2 == vim.api.nvim_buf_line_count(bufnr) then
    return { uri = vim.uri_from_bufnr(bufnr) }, name
  end
  local final = lines[#lines]
  if last then
    last = math.min(last, #final)
    last = last > 0 and last - 1 + #vim.fn.matchstr(final, '.', last - 1) or 0 -- all that one sees as one character
  end
  return {
    uri = vim.uri_from_bufnr(bufnr),
    range = {
      start = { line = range.line1 - 1, character = first and utf16(lines[1], first) or 0 },
      ['end'] = { line = range.line2 - 1, character = utf16(final, last or #final) },
    },
  },
    shown
end

return M
