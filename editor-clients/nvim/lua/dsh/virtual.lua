---Virtual: documents that only the server has, `dsh:/…`, read like files: transcripts, and files as they would be.

local client = require('dsh.client')
local protocol = require('dsh.protocol')

local M = {}

---Read one into its buffer, for `BufReadCmd`.
---@param bufnr integer
---@param uri string
function M.read(bufnr, uri)
  vim.bo[bufnr].buftype = 'nofile'
  vim.bo[bufnr].bufhidden = 'wipe'
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].undolevels = -1
  client.run(protocol.COMMANDS.text, { uri = uri }, function(result)
    if vim.api.nvim_buf_is_valid(bufnr) then
      vim.bo[bufnr].modifiable = true -- it may be read again
      vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, vim.split((result.text:gsub('\n$', '')), '\n'))
      vim.bo[bufnr].modified = false
      vim.bo[bufnr].modifiable = false
      vim.bo[bufnr].filetype = vim.filetype.match({ filename = uri, buf = bufnr }) or ''
    end
  end)
end

return M
