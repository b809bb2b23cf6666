---Keys: maps that exist only while there is something to decide, and give way to the user's own again afterwards.
---
---Rules: they stay a moment longer, and do nothing then: whoever presses one once more than there is to decide would
---run into what Neovim makes of it, and `gha` without a map puts an `a` over a character.

local config = require('dsh.config')

local M = {}

local LINGER_MS = 1500

---@class dsh.Keys
---@field bufnr integer? of buffer-local maps
---@field before table<string, table> what was mapped before
---@field maps { [1]: string|false, [2]: fun(), [3]: string }[] key, action, description
---@field leaving table? says which wish to take them away counts

local function mapped(bufnr, lhs)
  local function look()
    return vim.fn.maparg(lhs, 'n', false, true)
  end
  local map = bufnr and vim.api.nvim_buf_call(bufnr, look) or look()
  return next(map) and (map.buffer == 1) == (bufnr ~= nil) and map or nil
end

---What keys do, in words, leaving out those that the user has not.
---@param parts { [1]: string|false, [2]: string }[] key, what it does
---@return string
function M.words(parts)
  local words = {}
  for _, part in ipairs(parts) do
    words[#words + 1] = part[1] and ('%s %s'):format(part[1], part[2]) or nil
  end
  return table.concat(words, ' · ')
end

---The words for what decides a permission, a question or a review.
---@param kind 'approval'|'question'|'review'
---@return string
function M.hint(kind)
  local key = config.get().keys
  if kind == 'question' then
    return M.words({ { key.answer, 'answer' } })
  elseif kind == 'review' then
    return M.words({ { ':Dsh review', 'shows it' } })
  end
  return M.words({ { key.allow, 'allow' }, { key.allow_session, 'for this session' }, { key.deny, 'refuse' } })
end

---@class dsh.Map
---@field [1] string|string[] modes
---@field [2] string|false key; false leaves it out
---@field [3] string|fun() action
---@field [4] string description

local own = {} ---@type table<integer, { [1]: string|string[], [2]: string }[]> by buffer

---Set the maps of a buffer of ours, in place of those that were set so before.
---@param bufnr integer
---@param maps dsh.Map[]
function M.own(bufnr, maps)
  for _, map in ipairs(own[bufnr] or {}) do
    pcall(vim.keymap.del, map[1], map[2], { buffer = bufnr })
  end
  own[bufnr] = {}
  for _, map in ipairs(maps) do
    if map[2] then
      vim.keymap.set(map[1], map[2], map[3], { buffer = bufnr, nowait = true, desc = 'dsh: ' .. map[4] })
      table.insert(own[bufnr], { map[1], map[2] })
    end
  end
end

---Set the maps that are not set: `:bdelete` takes away those of its buffer.
---@param keys dsh.Keys
local function put(keys)
  for _, map in ipairs(keys.maps) do
    local lhs, description = map[1], 'dsh: ' .. map[3]
    local before = lhs and mapped(keys.bufnr, lhs)
    if lhs and not (before and before.desc == description) then
      keys.before[lhs] = before
      vim.keymap.set('n', lhs, map[2], { buffer = keys.bufnr, desc = description, nowait = keys.bufnr ~= nil })
    end
  end
end

---Set normal-mode maps; false for a key leaves it out.
---@param maps { [1]: string|false, [2]: fun(), [3]: string }[] key, action, description
---@param bufnr integer? a buffer's own; global if there is none
---@return dsh.Keys
function M.set(maps, bufnr)
  local keys = { bufnr = bufnr, before = {}, maps = maps }
  put(keys)
  return keys
end

---Take maps away, and put back what they hid.
---@param keys dsh.Keys
local function clear(keys)
  if keys.bufnr and not vim.api.nvim_buf_is_valid(keys.bufnr) then
    return
  end
  for _, map in ipairs(keys.maps) do
    local lhs = map[1]
    local before = lhs and keys.before[lhs]
    if lhs then
      pcall(vim.keymap.del, 'n', lhs, { buffer = keys.bufnr })
    end
    if before then
      local function restore()
        vim.fn.mapset('n', false, before)
      end
      if keys.bufnr then
        vim.api.nvim_buf_call(keys.bufnr, restore)
      else
        restore()
      end
    end
  end
end

---Take maps away in a moment, unless they are wanted again by then.
---@param keys dsh.Keys
---@param gone fun() called then
function M.leave(keys, gone)
  if keys.leaving then
    return
  end
  local wish = {}
  keys.leaving = wish
  vim.defer_fn(function()
    if keys.leaving == wish then
      clear(keys)
      gone()
    end
  end, LINGER_MS)
end

---Maps that were to be taken away, or that were taken away with what is in their buffer, are wanted again.
---@param keys dsh.Keys
function M.stay(keys)
  keys.leaving = nil
  put(keys)
end

return M
