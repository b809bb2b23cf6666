---Sight: what of a buffer can be read in a window.

local M = {}

---Whether all of a line is on the screen, though it may take many rows, or be wider than a window that does not wrap.
local function is_whole(win, line)
  local text = vim.fn.getbufoneline(vim.api.nvim_win_get_buf(win), line)
  local room = vim.api.nvim_win_get_width(win) - vim.fn.getwininfo(win)[1].textoff
  return vim.fn.strdisplaywidth(text) <= room
    or vim.fn.screenpos(win, line, 1).row > 0 and vim.fn.screenpos(win, line, #text).row > 0
end

---The lines, from 1, that are on the screen from their beginning to their end.
---@param win integer
---@return integer[]
function M.lines(win)
  local found = {}
  for line = vim.fn.line('w0', win), vim.fn.line('w$', win) do
    if is_whole(win, line) then
      found[#found + 1] = line
    end
  end
  return found
end

return M
