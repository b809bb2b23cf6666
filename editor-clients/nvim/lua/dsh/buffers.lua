---Buffers: which buffer holds a document, and which buffers hold documents at all.

local M = {}

---The loaded buffer of a document; nil when there is none.
---@param uri string
---@return integer?
function M.of(uri)
  if not vim.startswith(uri, 'file:') then
    return nil
  end
  local path = vim.uri_to_fname(uri)
  if vim.fn.bufexists(path) == 0 then
    return nil
  end
  local bufnr = vim.fn.bufadd(path) -- of a name that exists: finds, unlike `bufnr()`, which takes it for a pattern
  return vim.api.nvim_buf_is_loaded(bufnr) and bufnr or nil
end

local HELD_MS = 5000 -- long enough for a few questions about one file
local held = {} ---@type table<integer, integer> buffers that were loaded here, and when they were last wanted, in ms

local release

local function release_soon()
  vim.defer_fn(function()
    require('dsh.calm').run(release)
  end, HELD_MS)
end

---Unload what nobody has wanted for a while and no user has come to see: unlike a file, it would grow old unseen.
function release()
  local now = vim.uv.now()
  for bufnr, wanted in pairs(held) do
    local is_theirs = not vim.api.nvim_buf_is_loaded(bufnr) or vim.bo[bufnr].buflisted
    if is_theirs or #vim.fn.win_findbuf(bufnr) > 0 then
      held[bufnr] = nil
    elseif not vim.bo[bufnr].modified and now - wanted >= HELD_MS then
      held[bufnr] = nil
      vim.api.nvim_buf_delete(bufnr, { unload = true })
    end
  end
  if next(held) then
    release_soon()
  end
end

---The buffer of a document, loaded for a while without being listed if there was none.
---@param uri string
---@return integer
function M.load(uri)
  local bufnr = M.of(uri)
  if not bufnr then
    bufnr = vim.fn.bufadd(vim.uri_to_fname(uri))
    local before = vim.o.shortmess
    vim.opt.shortmess:append('A') -- another Neovim may have it open: that must not ask anything now
    vim.fn.bufload(bufnr)
    vim.o.shortmess = before
    if not next(held) then
      release_soon()
    end
    held[bufnr] = vim.uv.now()
  elseif held[bufnr] then
    held[bufnr] = vim.uv.now()
  end
  return bufnr
end

---Whether a buffer holds a file's text, or one that will be a file's.
---@param bufnr integer
function M.is_document(bufnr)
  if not vim.api.nvim_buf_is_loaded(bufnr) or vim.bo[bufnr].buftype ~= '' then
    return false
  end
  local name = vim.api.nvim_buf_get_name(bufnr)
  return name ~= '' and not name:match('^%a[%w+.-]+://')
end

---Whether a buffer holds text: a message with bytes that are none would be no message to the server.
---@param bufnr integer
function M.is_text(bufnr)
  local text = table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), '\n')
  local there = text:find('[\128-\255]') and vim.iconv(text, 'utf-8', 'utf-16le')
  return not there or vim.iconv(there, 'utf-16le', 'utf-8') == text
end

---The document that was shown last.
---@return integer? bufnr
function M.last_document()
  local found, used = nil, 0
  for _, info in ipairs(vim.fn.getbufinfo({ buflisted = 1, bufloaded = 1 })) do
    if M.is_document(info.bufnr) and info.lastused >= used then
      found, used = info.bufnr, info.lastused
    end
  end
  return found
end

---The window of this tab page that a file should open in: one that holds a document, the last used one first.
---@return integer?
function M.document_window()
  local last = vim.fn.win_getid(vim.fn.winnr('#'))
  local windows = vim.list_extend({ vim.api.nvim_get_current_win(), last }, vim.api.nvim_tabpage_list_wins(0))
  for _, win in ipairs(windows) do
    if win ~= 0 and vim.api.nvim_win_get_config(win).relative == '' then
      local bufnr = vim.api.nvim_win_get_buf(win)
      if vim.bo[bufnr].buftype == '' and not vim.wo[win].winfixbuf then
        return win
      end
    end
  end
end

---Put the cursor into a window that documents open in.
local function go_to_document_window()
  local win = M.document_window()
  if win then
    vim.api.nvim_set_current_win(win)
  else
    vim.cmd('topleft vsplit')
    vim.wo.winfixbuf = false
  end
  vim.cmd("normal! m'")
end

---Show a buffer beside the conversation.
---@param bufnr integer
function M.show(bufnr)
  go_to_document_window()
  if not pcall(vim.api.nvim_win_set_buf, 0, bufnr) then -- the buffer there is unsaved and may not be hidden
    vim.cmd.sbuffer(bufnr)
  end
end

---Show what the user has open as it is; read from the disk only what is not.
local function show_file(path)
  local bufnr = M.of(vim.uri_from_fname(path))
  local is_theirs = bufnr and vim.bo[bufnr].buflisted
  local win = is_theirs and vim.fn.bufwinid(bufnr) or -1
  if win ~= -1 then
    vim.api.nvim_set_current_win(win)
    return vim.cmd("normal! m'")
  end
  go_to_document_window()
  local name = vim.fn.fnameescape(path)
  local shown = pcall(is_theirs and vim.cmd.buffer or vim.cmd.edit, is_theirs and bufnr or name)
  if not shown then -- the buffer there is unsaved and may not be hidden
    vim.cmd.split(name)
  end
end

---Put the cursor on a line of this window, counted from 1, and the line into sight.
---@param line integer
function M.go_to_line(line)
  local last = vim.api.nvim_buf_line_count(0)
  vim.api.nvim_win_set_cursor(0, { math.max(1, math.min(line, last)), 0 })
  vim.cmd('normal! zvzz')
end

---Show a file beside the conversation, with the cursor on a line, counted from 1.
---@param path string
---@param line integer?
function M.open(path, line)
  show_file(path)
  if line then
    M.go_to_line(line)
  end
end

return M
