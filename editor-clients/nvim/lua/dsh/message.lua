---Message: short words for the user, which never ask for a key.
---
---Rules: one line that fits the screen, since a longer one makes Neovim ask to press ENTER, and that key would be
---taken from what the user is typing.

local M = {}

---A text that Neovim's functions take, which do not take a NUL.
---@param text string
---@return string
function M.readable(text)
  return (text:gsub('%z', '^@'))
end

local function say(text, level)
  text = 'dsh: ' .. vim.trim((M.readable(text):gsub('%s+', ' ')))
  local width = math.max(1, vim.v.echospace)
  if vim.fn.strdisplaywidth(text) > width then
    text = vim.fn.strcharpart(text, 0, width - 1) .. '…'
  end
  vim.notify(text, level)
end

---@param text string
function M.info(text)
  say(text, vim.log.levels.INFO)
end

---@param text string
function M.warn(text)
  say(text, vim.log.levels.WARN)
end

---@param text string
function M.error(text)
  say(text, vim.log.levels.ERROR)
end

return M
