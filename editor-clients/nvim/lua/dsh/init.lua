---dsh: an agent in Neovim. There is nothing that must be called; `:Dsh` and `vim.g.dsh` are enough.

local M = {}

---Set `vim.g.dsh`, for those who like to configure by a function.
---@param options table?
function M.setup(options)
  if options ~= nil then
    vim.g.dsh = options
  end
  require('dsh.config').get()
end

---A component for the status line: state, what waits, mode, model, context use; empty while no server runs.
---@return string
function M.statusline()
  return package.loaded['dsh.client'] and require('dsh.status').line() or ''
end

---How the session stands, for components of your own.
---@return dsh.Summary
function M.status()
  return require('dsh.status').get()
end

return M
