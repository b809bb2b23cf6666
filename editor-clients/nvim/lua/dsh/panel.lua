---Panel: the windows of the conversation: the chat, and the input area below it.

local buffers = require('dsh.buffers')
local chat = require('dsh.chat')
local client = require('dsh.client')
local config = require('dsh.config')
local input = require('dsh.input')
local keys = require('dsh.keys')
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

local closing = false
local half_closed = false -- the user has closed one of the two windows

local function window_of(bufnr)
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.api.nvim_win_get_buf(win) == bufnr then
      return win
    end
  end
end

---Give a window its options, once: afterwards they are the user's.
local function configure(win, more)
  if vim.w[win].dsh_panel then
    return
  end
  vim.w[win].dsh_panel = true
  for name, value in pairs(vim.tbl_extend('force', OPTIONS, more)) do
    vim.api.nvim_set_option_value(name, value, { win = win, scope = 'local' })
  end
end

local function cancel()
  if client.get() then -- where no server runs, nothing does
    client.run(protocol.COMMANDS.cancel)
  end
end

---Keys that are the same in both windows.
---@return dsh.Map[]
local function shared_maps()
  return {
    { { 'n', 'i' }, config.get().keys.cancel, cancel, 'cancel the running turn' },
    { 'n', 'q', M.close, 'close the conversation' },
  }
end

---@return dsh.Map[]
local function chat_maps()
  local maps = {}
  for _, lhs in ipairs({ 'i', 'a', 'o', 'I', 'A', 'O' }) do
    maps[#maps + 1] = { 'n', lhs, M.write, 'write to the agent' }
  end
  local restart = config.get().keys.restart or '<Plug>(dsh-restart)'
  maps[#maps + 1] = { 'n', restart, client.restart, 'start the server again' }
  return maps
end

local function open_chat()
  local options = config.get().chat
  local beside = options.position == 'left' or options.position == 'right'
  local room, least = beside and vim.o.columns or vim.o.lines, beside and 48 or 10 -- less cannot be read
  local size = math.min(math.max(math.floor(room * options.size), least), math.floor(room * 0.9))
  return vim.api.nvim_open_win(chat.buffer(), false, {
    win = -1, -- beside all windows
    split = ({ left = 'left', right = 'right', top = 'above', bottom = 'below' })[options.position],
    width = beside and size or nil,
    height = not beside and size or nil,
  })
end

local function open_input(above)
  local stray = window_of(input.buffer())
  if stray then -- left over, where it is no part of a conversation
    vim.api.nvim_win_close(stray, true)
  end
  local height = config.get().chat.input_height
  return vim.api.nvim_open_win(input.buffer(), false, { win = above, split = 'below', height = height })
end

---Show the conversation; the cursor stays where it is.
---@return integer chat, integer input windows
function M.show()
  half_closed = false
  local above, below = window_of(chat.buffer()), window_of(input.buffer())
  if not above or not below then
    above = above or open_chat()
    below = open_input(above)
  end
  local beside = vim.list_contains({ 'left', 'right' }, config.get().chat.position)
  configure(above, {
    winbar = "%{%v:lua.require'dsh.status'.winbar()%}",
    conceallevel = 2,
    concealcursor = 'nc',
    winfixwidth = beside,
    winfixheight = not beside,
  })
  configure(below, { winfixheight = true, winbar = '' })
  keys.own(chat.buffer(), vim.list_extend(chat_maps(), shared_maps()))
  keys.own(input.buffer(), vim.list_extend(input.maps(), shared_maps()))
  chat.draw()
  return above, below
end

---Show the conversation and begin to write.
function M.write()
  local _, below = M.show()
  vim.api.nvim_set_current_win(below)
  vim.cmd('startinsert!')
end

---Whether a window is the last one of all; what floats is none that could stay alone.
local function is_last()
  local windows = vim.tbl_filter(function(win)
    return vim.api.nvim_win_get_config(win).relative == ''
  end, vim.api.nvim_tabpage_list_wins(0))
  return #windows == 1 and #vim.api.nvim_list_tabpages() == 1
end

---Close a window; the last one of all shows a document in its place.
local function close(win)
  if is_last() then
    vim.w[win].dsh_panel = nil
    for _, fixed in ipairs({ 'winfixbuf', 'winfixwidth', 'winfixheight' }) do
      vim.wo[win][fixed] = false
    end
    vim.api.nvim_win_set_buf(win, buffers.last_document() or vim.api.nvim_create_buf(true, false))
  else
    vim.api.nvim_win_close(win, false)
  end
end

function M.close()
  closing, half_closed = true, false -- both at once: neither takes the other along again
  for _, bufnr in ipairs({ input.buffer(), chat.buffer() }) do
    local win = window_of(bufnr)
    if win then
      close(win)
    end
  end
  closing = false
end

function M.toggle()
  if window_of(chat.buffer()) then
    M.close()
  else
    M.write()
  end
end

vim.api.nvim_create_autocmd('WinClosed', {
  group = vim.api.nvim_create_augroup('dsh.panel', {}),
  callback = function(event)
    local win = tonumber(event.match)
    local left = win == vim.api.nvim_get_current_win() -- not by `:only` in the other one
    if left and not closing and vim.w[win].dsh_panel then
      half_closed = true
      vim.schedule(function()
        if half_closed then
          M.close()
        end
      end)
    end
  end,
})

return M
