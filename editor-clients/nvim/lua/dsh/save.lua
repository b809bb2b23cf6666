---Save: writes buffers that the agent's edit has changed, when the server asks for it.
---
---Rules: nothing asks the user: a file that another program has changed since it was read is not written, and said to
---have failed; a buffer that was changed since the server saw it is left to its user; autocommands run, as for any
---`:write`.

local buffers = require('dsh.buffers')
local message = require('dsh.message')

local M = {}

---Whether the file is another one than the buffer was read from; asked of Neovim itself, without its prompt.
local function changed_outside(bufnr)
  local changed = false
  local watch = vim.api.nvim_create_autocmd('FileChangedShell', {
    buffer = bufnr,
    callback = function()
      changed = true
      vim.v.fcs_choice = ''
    end,
  })
  pcall(vim.cmd.checktime, bufnr)
  vim.api.nvim_del_autocmd(watch)
  return changed
end

---@return string? failure
local function save(uri)
  local bufnr = buffers.of(uri)
  if not bufnr then
    return 'not open'
  elseif not vim.bo[bufnr].modified then
    return nil
  elseif vim.bo[bufnr].readonly then
    return 'read-only'
  elseif changed_outside(bufnr) then
    return 'changed by another program'
  end
  local done, reason = pcall(vim.api.nvim_buf_call, bufnr, function()
    vim.cmd('silent lockmarks write')
  end)
  if not done then
    return (tostring(reason):gsub('^Vim%(%w+%):', ''))
  end
  return vim.bo[bufnr].modified and 'still modified' or nil
end

---Whether its user has typed into a buffer since a version of it.
local function moved_on(uri, version)
  local bufnr = buffers.of(uri)
  return bufnr ~= nil and version ~= nil and vim.lsp.util.buf_versions[bufnr] ~= version
end

---Answer `dsh/save`.
---@param params { uris: string[], versions: table<string, integer>? }
---@return { saved: string[], failed: string[] }
function M.save(params)
  local saved, failed = {}, {}
  for _, uri in ipairs(params.uris) do
    local overtaken = moved_on(uri, (params.versions or {})[uri])
    local reason = not overtaken and save(uri) or nil
    if overtaken then
      failed[#failed + 1] = uri
    elseif reason then
      failed[#failed + 1] = uri
      vim.lsp.log.warn('dsh: not saved:', uri, reason)
      message.warn(('%s is not saved: %s'):format(vim.fs.basename(vim.uri_to_fname(uri)), reason))
    else
      saved[#saved + 1] = uri
    end
  end
  return { saved = saved, failed = failed }
end

return M
