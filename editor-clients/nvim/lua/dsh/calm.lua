---Calm: whether Neovim lets anything be changed now, and what waits until it does.
---
---Rules: nothing is changed while a map of the user's reads a key (`<expr>`, where Neovim forbids it, and an error
---would end the map), nor under a command that has begun and remembers its lines by number.

local M = {}

local POLL_MS = 20
local NOWHERE = 2147483647 -- no buffer has this number

local waiting = {} ---@type fun()[] in order
local polls = false

---Whether no text and no window may be changed.
local function is_locked()
  local _, reason = pcall(vim.api.nvim_buf_set_lines, NOWHERE, 0, 0, false, {})
  return tostring(reason):find('E565', 1, true) ~= nil
end

local poll

local function poll_soon(delay)
  if not polls and waiting[1] then
    polls = true
    vim.defer_fn(poll, delay)
  end
end

function poll()
  polls = false
  local act = not is_locked() and vim.fn.getcmdwintype() == '' and table.remove(waiting, 1)
  poll_soon(act and 0 or POLL_MS)
  if act then
    act()
  end
end

---Do something that changes text or windows: now, or as soon as that is allowed; in the order of the calls.
---@param act fun()
function M.run(act)
  if not waiting[1] and not is_locked() and vim.fn.getcmdwintype() == '' then
    return act()
  end
  waiting[#waiting + 1] = act
  poll_soon(POLL_MS)
end

local fills_block = false -- what is inserted now comes into the other lines of a block at its end

vim.api.nvim_create_autocmd('ModeChanged', {
  group = vim.api.nvim_create_augroup('dsh.calm', {}),
  pattern = { '\22*:i*', 'i*:n' },
  callback = function()
    fills_block = vim.startswith(vim.v.event.old_mode, '\22')
  end,
})

---Whether a command has begun in a buffer that knows its lines by number: an operator that waits for its motion, a
---selection, an insertion into a block, a `:s///c` that asks.
---@param bufnr integer
local function is_amid_command(bufnr)
  local mode = vim.fn.mode(1)
  local begun = vim.startswith(mode, 'no') or mode:match('^[vVsS\22\19]') ~= nil or mode == 'r?'
  return (begun or fills_block) and bufnr == vim.api.nvim_get_current_buf()
end

---Wait, in a coroutine, until the text of buffers can be changed.
---@param bufnrs integer[]
---@param seconds number at most
---@return boolean it can be
function M.wait(bufnrs, seconds)
  local waits, deadline = coroutine.running(), vim.uv.now() + seconds * 1000
  while is_locked() or vim.iter(bufnrs):any(is_amid_command) do
    if not waits or vim.uv.now() >= deadline then
      return false
    end
    vim.defer_fn(function()
      coroutine.resume(waits)
    end, POLL_MS)
    coroutine.yield()
  end
  return true
end

return M
