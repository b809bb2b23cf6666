---Scratch: buffers with a name and without a file: found or made, never twice.
---
---Rules: one that was unloaded (`:bdelete`), read again (`:edit`) or restored with a session is made whole again; a
---correction that is refused is shown again, even after `:wq`.

local M = {}

local intact = {} ---@type table<integer, true> made whole here and not unloaded since

---Whether a buffer is as it was made.
---@param bufnr integer?
---@return boolean
function M.is_intact(bufnr)
  return bufnr ~= nil and intact[bufnr] == true and vim.api.nvim_buf_is_loaded(bufnr)
end

---@param name string
---@return integer? bufnr
local function find(name)
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    if vim.api.nvim_buf_get_name(bufnr) == name then
      return bufnr
    end
  end
end

---Load what was unloaded, without anybody looking for a file of that name.
local function load(bufnr)
  vim.bo[bufnr].buftype, vim.bo[bufnr].swapfile = 'nofile', false
  if not vim.api.nvim_buf_is_loaded(bufnr) then
    vim.cmd(('noautocmd call bufload(%d)'):format(bufnr))
  end
end

---The buffer of a name.
---@param name string
---@param options table<string, any> of the buffer
---@param prepare fun(bufnr: integer, group: integer)? sets keys, and autocommands in the group
---@return integer bufnr
function M.buffer(name, options, prepare)
  local bufnr = find(name)
  if bufnr and M.is_intact(bufnr) then
    return bufnr
  elseif not bufnr then
    bufnr = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(bufnr, name)
  end
  load(bufnr)
  intact[bufnr] = true
  local group = vim.api.nvim_create_augroup('dsh.scratch.' .. bufnr, {})
  vim.api.nvim_create_autocmd('BufUnload', {
    group = group,
    buffer = bufnr,
    callback = function()
      intact[bufnr] = nil
    end,
  })
  vim.bo[bufnr].buflisted = false
  for option, value in pairs(options) do
    vim.bo[bufnr][option] = value
  end
  if prepare then
    prepare(bufnr, group)
  end
  return bufnr
end

---@class dsh.Correction
---@field name string of the buffer
---@field lines string[]
---@field filetype string
---@field winbar string
---@field write fun(text: string, done: fun(), failed: fun()) what `:w` does

---@param correction dsh.Correction
---@param lines string[]
---@param enter boolean
local function open(correction, lines, enter)
  local bufnr = M.buffer(
    correction.name,
    { bufhidden = 'wipe', filetype = correction.filetype },
    function(made, group)
      vim.bo[made].buftype = 'acwrite'
      vim.api.nvim_buf_set_lines(made, 0, -1, false, lines)
      vim.bo[made].modified = false
      vim.api.nvim_create_autocmd('BufWriteCmd', {
        group = group,
        buffer = made,
        callback = function(event)
          if event.match == vim.api.nvim_buf_get_name(made) then
            M.write(correction, made)
          else
            vim.fn.writefile(vim.api.nvim_buf_get_lines(made, 0, -1, false), event.match) -- that is no decision
          end
        end,
      })
    end
  )
  local height = math.max(3, math.min(#lines + 1, math.floor(vim.o.lines / 2)))
  local win = vim.api.nvim_open_win(bufnr, enter, { split = 'below', height = height })
  vim.wo[win][0].winbar = correction.winbar
  return bufnr
end

---Write a correction; whoever refuses it gives it back, into its window or, if that was closed meanwhile, a new one.
---@param correction dsh.Correction
---@param bufnr integer
function M.write(correction, bufnr)
  local lines = vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)
  vim.bo[bufnr].modified = false
  correction.write(table.concat(lines, '\n'), function()
    if vim.api.nvim_buf_is_valid(bufnr) then
      vim.api.nvim_buf_delete(bufnr, { force = true })
    end
  end, function()
    local shown = vim.api.nvim_buf_is_loaded(bufnr) and bufnr or open(correction, lines, false)
    vim.bo[shown].modified = true
  end)
end

---Let a text be corrected in a window of its own; one that is open already is gone to.
---@param correction dsh.Correction
function M.correct(correction)
  local bufnr = find(correction.name)
  local win = bufnr and vim.fn.win_findbuf(bufnr)[1]
  if win then
    return vim.api.nvim_set_current_win(win)
  end
  open(correction, correction.lines, true)
end

return M
