---Corner: a few lines in a corner of the screen, which take neither the cursor nor a key.

local message = require('dsh.message')

local M = {}

local WIDTH, HEIGHT = 64, 12 -- where the screen has room for that
local BORDER = 2
local ns = vim.api.nvim_create_namespace('dsh.corner')

local float ---@type { win: integer?, bufnr: integer }?

local function is_here()
  return float ~= nil
    and vim.api.nvim_win_is_valid(float.win)
    and vim.api.nvim_win_get_tabpage(float.win) == vim.api.nvim_get_current_tabpage()
end

function M.hide()
  if float then
    if vim.api.nvim_win_is_valid(float.win) then
      vim.api.nvim_win_close(float.win, true)
    end
    float = nil
  end
end

---The last row of the corner, and the columns and rows that there are for words.
---@return integer bottom, integer width, integer height
local function room()
  local bottom = vim.o.lines - vim.o.cmdheight - (vim.o.laststatus > 0 and 1 or 0)
  return bottom, math.min(WIDTH, vim.o.columns - BORDER), math.min(HEIGHT, bottom - BORDER)
end

---Lines as they fit into so much room, and whether nothing had to be left out.
---@return string[], boolean
local function fit(lines, width, height)
  local fitted = {}
  for _, line in ipairs(vim.tbl_map(message.readable, lines)) do
    while vim.fn.strdisplaywidth(line) > width do
      local part = vim.fn.strcharpart(line, 0, width)
      while vim.fn.strdisplaywidth(part) > width do
        part = vim.fn.strcharpart(part, 0, vim.fn.strchars(part) - 1)
      end
      fitted[#fitted + 1] = part
      line = line:sub(#part + 1)
    end
    if vim.trim(line) ~= '' then
      fitted[#fitted + 1] = line
    end
  end
  if #fitted <= height then
    return fitted, true
  end
  local kept = vim.list_slice(fitted, 1, height - 2)
  local more = vim.fn.strcharpart('… and more: :Dsh shows all of it', 0, width)
  return vim.list_slice(vim.list_extend(kept, { more, fitted[#fitted] }), math.max(1, 3 - height)), false
end

---Say it, without taking the cursor or a key.
---@param words string[] the last line says what can be done
---@return boolean whole whether nothing had to be left out
function M.show(words)
  local bottom, most, height = room()
  if height < 1 then
    M.hide()
    return false
  end
  local lines, whole = fit(words, most, height)
  local width = 0
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  if not is_here() then -- a window stays in its tab page
    M.hide()
    local bufnr = vim.api.nvim_create_buf(false, true)
    vim.bo[bufnr].bufhidden = 'wipe'
    float = { bufnr = bufnr }
  end
  vim.api.nvim_buf_set_lines(float.bufnr, 0, -1, false, lines)
  vim.api.nvim_buf_clear_namespace(float.bufnr, ns, 0, -1)
  vim.api.nvim_buf_set_extmark(float.bufnr, ns, 0, 0, { line_hl_group = 'DshWaiting' })
  vim.api.nvim_buf_set_extmark(float.bufnr, ns, #lines - 1, 0, { line_hl_group = 'DshMuted' })
  local place = {
    relative = 'editor',
    anchor = 'SE',
    row = bottom,
    col = vim.o.columns,
    width = math.max(width, 1),
    height = #lines,
    border = 'rounded',
    title = { { ' dsh ', 'DshWaiting' } },
    focusable = false,
    style = 'minimal',
    zindex = 45,
  }
  if float.win then
    vim.api.nvim_win_set_config(float.win, place)
  else
    place.noautocmd = true
    float.win = vim.api.nvim_open_win(float.bufnr, false, place)
    vim.wo[float.win].winhighlight = 'NormalFloat:NormalFloat,FloatBorder:DshBorder'
  end
  return whole
end

return M
