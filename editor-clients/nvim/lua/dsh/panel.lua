---Panel: the windows of the conversation: the chat, and the input area below it.

local chat = require('dsh.chat')
local client = require('dsh.client')
local config = require('dsh.config')
local input = require('dsh.input')
local protocol = require('dsh.protocol')

local M = {}

local OPTIONS = {
  number = false,
  relativenumber = false,
  signcolumn = 'no',
  foldcolumn = '0',
  foldenable = false,
  statuscolumn = ' ',
  fillchars = 'eob: ',
  colorcolumn = '',
  cursorline = false,
  list = false,
  spell = false,
  wrap = true,
  linebreak = true,
  breakindent = true,
  winfixbuf = true,
}

local function window_of(bufnr)
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.api.nvim_win_get_buf(win) == bufnr then
      return win
    end
  end
end

local function configure(win, more)
  for name, value in pairs(vim.tbl_extend('force', OPTIONS, more)) do
    vim.api.nvim_set_option_value(name, value, { win = win, scope = 'local' })
  end
end

---Keys that are the same in both windows.
local function map_both(bufnr)
  local keys = config.get().keys
  local function map(modes, lhs, rhs, what)
    if lhs then
      vim.keymap.set(modes, lhs, rhs, { buffer = bufnr, desc = 'dsh: ' .. what })
    end
  end
  map({ 'n', 'i' }, keys.cancel, function()
    client.run(protocol.COMMANDS.cancel)
  end, 'cancel the running turn')
  map('n', 'q', M.close, 'close the conversation')
end

local function open_chat()
  local options, bufnr = config.get().chat, chat.buffer()
  local beside = options.position == 'left' or options.position == 'right'
  local room, least = beside and vim.o.columns or vim.o.lines, beside and 48 or 10 -- less cannot be read
  local size = math.min(math.max(math.floor(room * options.size), least), math.floor(room * 0.9))
  local win = vim.api.nvim_open_win(bufnr, false, {
    win = -1, -- beside all windows
    split = ({ left = 'left', right = 'right', top = 'above', bottom = 'below' })[options.position],
    width = beside and size or nil,
    height = not beside and size or nil,
  })
  configure(win, {
    winbar = "%{%v:lua.require'dsh.status'.winbar()%}",
    conceallevel = 2,
    concealcursor = 'nc',
    winfixwidth = beside,
    winfixheight = not beside,
  })
  map_both(bufnr)
  vim.keymap.set('n', config.get().keys.restart or '<Plug>(dsh-restart)', function()
    client.restart()
  end, { buffer = bufnr, desc = 'dsh: start the server again' })
  for _, lhs in ipairs({ 'i', 'a', 'o', 'I', 'A', 'O' }) do
    vim.keymap.set('n', lhs, M.write, { buffer = bufnr, desc = 'dsh: write to the agent' })
  end
  return win
end

---Show the conversation; the cursor stays where it is.
---@return integer chat, integer input windows
function M.show()
  local above = window_of(chat.buffer()) or open_chat()
  local below = window_of(input.buffer())
  if not below then
    local height = config.get().chat.input_height
    below = vim.api.nvim_open_win(input.buffer(), false, { win = above, split = 'below', height = height })
    configure(below, { winfixheight = true, winbar = '' })
    map_both(input.buffer())
  end
  chat.draw()
  return above, below
end

---Show the conversation and begin to write.
function M.write()
  local _, below = M.show()
  vim.api.nvim_set_current_win(below)
  vim.cmd('startinsert!')
end

function M.close()
  for _, bufnr in ipairs({ input.buffer(), chat.buffer() }) do
    local win = window_of(bufnr)
    if win and #vim.api.nvim_tabpage_list_wins(0) > 1 then
      vim.api.nvim_win_close(win, false)
    end
  end
end

function M.toggle()
  if window_of(chat.buffer()) then
    M.close()
  else
    M.write()
  end
end

return M
