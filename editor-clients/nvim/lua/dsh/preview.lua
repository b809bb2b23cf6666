---Preview: the buffers of proposed files that do not exist yet.
---
---Rules: one gives way when it is known what became of its file, not when that was decided.

local buffers = require('dsh.buffers')
local calm = require('dsh.calm')
local marks = require('dsh.marks')

local M = {}

local ns = vim.api.nvim_create_namespace('dsh.preview')
local previews = {} ---@type table<string, integer> by hunk id

---@param one dsh.Waiting
---@return integer? bufnr
function M.of(one)
  local bufnr = previews[one.hunk.id]
  return bufnr and vim.api.nvim_buf_is_loaded(bufnr) and bufnr or nil
end

---The preview of a file, made if there is none; it can be read, not changed.
---@param one dsh.Waiting
---@return integer bufnr
function M.open(one)
  local bufnr = M.of(one)
  if bufnr then
    return bufnr
  end
  local path = vim.uri_to_fname(one.uri)
  bufnr = vim.api.nvim_create_buf(false, true)
  previews[one.hunk.id] = bufnr
  vim.api.nvim_buf_set_name(bufnr, ('dsh:/proposal/%s%s'):format(one.proposal, path))
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, marks.lines_of(one.hunk.newText))
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].bufhidden = 'wipe'
  vim.bo[bufnr].filetype = vim.filetype.match({ filename = path, buf = bufnr }) or ''
  for row = 0, vim.api.nvim_buf_line_count(bufnr) - 1 do
    vim.api.nvim_buf_set_extmark(bufnr, ns, row, 0, { line_hl_group = 'DshReviewNew' })
  end
  return bufnr
end

---What a window showed before.
local function before(win)
  local bufnr = vim.api.nvim_win_call(win, function()
    return vim.fn.bufnr('#')
  end)
  if bufnr > 0 and vim.bo[bufnr].buflisted then
    return bufnr
  end
  return buffers.last_document() or vim.api.nvim_create_buf(true, false)
end

---Give way to the file if that is there now, else to what was there before.
local function close(one)
  local bufnr = M.of(one)
  previews[one.hunk.id] = nil
  local path = vim.uri_to_fname(one.uri)
  for _, win in ipairs(bufnr and vim.fn.win_findbuf(bufnr) or {}) do
    local file = vim.uv.fs_stat(path) and vim.fn.bufadd(path) or before(win)
    vim.bo[file].buflisted = true
    vim.api.nvim_win_set_buf(win, file)
  end
  if bufnr and vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_delete(bufnr, { force = true })
  end
end

---Close the previews of those that are over.
---@param over dsh.Waiting[]
function M.close(over)
  for _, one in ipairs(over) do
    if one.kind == 'create' then
      vim.schedule(function()
        calm.run(function()
          close(one)
        end)
      end)
    end
  end
end

return M
