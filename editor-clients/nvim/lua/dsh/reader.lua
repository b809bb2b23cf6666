---Reader: what the user does in the conversation: unfolds, follows links, goes from question to question.

local buffers = require('dsh.buffers')
local chat = require('dsh.chat')
local client = require('dsh.client')

local M = {}

local function row()
  return vim.fn.line('.') - 1
end

---@param how 'toggle'|'open'|'close'
function M.fold(how)
  local block = chat.block_at(row())
  if block and block.folds then
    local open = how == 'open' or (how == 'toggle' and not chat.is_unfolded(block))
    vim.fn.cursor(chat.set_unfolded(block, open) + 1, 1)
  end
end

---@param open boolean
function M.fold_all(open)
  for _, placed in ipairs(chat.blocks()) do
    chat.set_unfolded(placed.block, open)
  end
end

local function absolute(path)
  return vim.startswith(path, '/') and path or vim.fs.joinpath(client.root(), path)
end

---What the text under the cursor leads to: a file, and a line of it.
local function link_in_text()
  local name = vim.fn.expand('<cfile>'):gsub(':%d+$', '')
  local line = name ~= '' and vim.api.nvim_get_current_line():match(vim.pesc(name) .. ':(%d+)')
  return name ~= '' and vim.uv.fs_stat(absolute(name)) and { path = name, line = tonumber(line) } or nil
end

---Go to what is under the cursor; unfold it if it leads nowhere.
function M.follow()
  local block, at = chat.block_at(row())
  local link = block and block.links[at] or link_in_text()
  if not link then
    return M.fold('toggle')
  end
  buffers.open(link.uri and vim.uri_to_fname(link.uri) or absolute(link.path), link.line)
end

---Go to the next or the previous thing that the user said.
---@param step 1|-1
function M.go(step)
  local here, target = row(), nil
  for _, placed in ipairs(chat.blocks()) do
    if placed.block.kind == 'user' and (step == 1 and placed.row > here or step == -1 and placed.row < here) then
      target = step == 1 and target or placed.row -- the first one after, the last one before
    end
  end
  if target then
    vim.cmd("normal! m'")
    vim.api.nvim_win_set_cursor(0, { target + 1, 0 })
  end
end

local MAPS = {
  { '<CR>', M.follow, {}, 'go to what is under the cursor' },
  { 'gf', M.follow, {}, 'go to what is under the cursor' },
  { '<Tab>', M.fold, { 'toggle' }, 'unfold or fold' },
  { 'za', M.fold, { 'toggle' }, 'unfold or fold' },
  { 'zo', M.fold, { 'open' }, 'unfold' },
  { 'zc', M.fold, { 'close' }, 'fold' },
  { 'zR', M.fold_all, { true }, 'unfold all' },
  { 'zM', M.fold_all, { false }, 'fold all' },
  { ']]', M.go, { 1 }, 'next question' },
  { '[[', M.go, { -1 }, 'previous question' },
}

---Set the keys of the conversation's buffer.
---@param bufnr integer
function M.map(bufnr)
  for _, map in ipairs(MAPS) do
    vim.keymap.set('n', map[1], function()
      map[2](unpack(map[3]))
    end, { buffer = bufnr, desc = 'dsh: ' .. map[4] })
  end
end

return M
