---Review: the hunks that wait for a decision, shown in their buffers, and those that landed unasked, to be undone.
---
---Rules: the server knows what waits and where, this only shows it; a buffer has the keys only while something waits
---there, though it may not show yet, and a moment longer.

local buffers = require('dsh.buffers')
local client = require('dsh.client')
local feed = require('dsh.feed')
local config = require('dsh.config')
local keys = require('dsh.keys')
local landed = require('dsh.landed')
local leaving = require('dsh.leaving')
local marks = require('dsh.marks')
local message = require('dsh.message')
local preview = require('dsh.preview')
local protocol = require('dsh.protocol')

local M = {}

local AGAIN_MS, TRIES = 150, 20

---@class dsh.Waiting
---@field uri string
---@field kind 'edit'|'create'|'rename'|'delete'|'landed'
---@field proposal string
---@field new_uri string?
---@field hunk dsh.Hunk
---@field bufnr integer? that shows it
---@field mark dsh.Mark?

local waiting = {} ---@type table<string, dsh.Waiting> by hunk id
local order = {} ---@type string[]
local buffer_keys = {} ---@type table<integer, dsh.Keys>
local due, busy, again, tries = false, false, false, 0 -- to ask, asked, to ask again
local afterwards = {} ---@type fun()[] to be called when it is known what waits

-- What is shown -------------------------------------------------------------------------------------------------

local function all()
  local found = vim.tbl_map(function(id)
    return waiting[id]
  end, order)
  return vim.list_extend(found, landed.all())
end

---What shows in a buffer, from its top.
---@param bufnr integer
---@return dsh.Waiting[]
function M.in_buffer(bufnr)
  local found = vim.tbl_filter(function(one)
    return one.bufnr == bufnr and one.mark ~= nil and marks.is_there(one.mark)
  end, all())
  table.sort(found, function(a, b)
    return (marks.rows(a.mark)) < (marks.rows(b.mark))
  end)
  return found
end

---What shows under the cursor.
---@return dsh.Waiting?
function M.here()
  local row = vim.fn.line('.') - 1
  for _, one in ipairs(M.in_buffer(vim.api.nvim_get_current_buf())) do
    local first, last = marks.rows(one.mark)
    if row >= first and row <= last or one.kind == 'create' then
      return one
    end
  end
end

---What waits, by file.
---@return { uri: string, kind: string, hunks: integer }[]
function M.files()
  local found, by_uri = {}, {}
  for _, id in ipairs(order) do
    local one = waiting[id]
    if not by_uri[one.uri] then
      by_uri[one.uri] = { uri = one.uri, kind = one.kind, hunks = 0 }
      found[#found + 1] = by_uri[one.uri]
    end
    by_uri[one.uri].hunks = by_uri[one.uri].hunks + 1
  end
  return found
end

---Whether something proposed is text that can be changed before it lands.
---@param one dsh.Waiting
function M.has_text(one)
  return one.kind == 'edit' or one.kind == 'create'
end

local function hint(bufnr)
  local one = vim.api.nvim_get_current_buf() == bufnr and M.here()
  if not one then
    return marks.hint(bufnr)
  end
  local key = config.get().keys
  local words = one.kind == 'landed' and keys.words({ { key.accept, 'keep' }, { key.reject, 'undo' } })
    or keys.words({ { key.accept, 'accept' }, { key.reject, 'reject' }, { M.has_text(one) and key.edit, 'edit' } })
  marks.hint(bufnr, (marks.rows(one.mark)), words)
end

local function verdict(name, scope)
  return function()
    require('dsh.verdict')[name](scope)
  end
end

local function set_keys(bufnr)
  local key = config.get().keys
  buffer_keys[bufnr] = keys.set({
    { key.next_hunk, M.next, 'next proposed hunk' },
    { key.previous_hunk, M.previous, 'previous proposed hunk' },
    { key.accept, verdict('accept', 'hunk'), 'accept this hunk' },
    { key.reject, verdict('reject', 'hunk'), 'reject this hunk' },
    { key.comment, verdict('comment'), 'reject this hunk and say why' },
    { key.edit, verdict('edit'), 'change this hunk before it lands' },
    { key.accept_file, verdict('accept', 'file'), 'accept all hunks here' },
    { key.reject_file, verdict('reject', 'file'), 'reject all hunks here' },
  }, bufnr)
  vim.api.nvim_create_autocmd({ 'CursorMoved', 'BufEnter' }, {
    group = vim.api.nvim_create_augroup('dsh.review.' .. bufnr, {}),
    buffer = bufnr,
    callback = function()
      hint(bufnr)
    end,
  })
end

local function clear_keys(bufnr, set)
  if vim.api.nvim_buf_is_valid(bufnr) then
    marks.hint(bufnr)
  end
  keys.leave(set, function()
    buffer_keys[bufnr] = nil
    pcall(vim.api.nvim_del_augroup_by_name, 'dsh.review.' .. bufnr)
  end)
end

---Give the keys to the buffers where something waits or shows, and to no others.
local function update_keys()
  local wanted = {}
  for _, one in ipairs(all()) do
    local has_own = one.kind == 'landed' or one.kind == 'create'
    local bufnr = not has_own and buffers.of(one.uri) or one.bufnr -- it may have been opened since it was looked for
    local waits = one.kind ~= 'landed' and bufnr ~= nil and vim.api.nvim_buf_is_loaded(bufnr)
    if waits or one.mark and marks.is_there(one.mark) then
      wanted[bufnr] = true
    end
  end
  for bufnr, set in pairs(buffer_keys) do
    if not wanted[bufnr] then
      clear_keys(bufnr, set)
    end
  end
  for bufnr in pairs(wanted) do
    if buffer_keys[bufnr] then
      keys.stay(buffer_keys[bufnr])
    else
      set_keys(bufnr)
    end
    hint(bufnr)
  end
end

-- Showing -------------------------------------------------------------------------------------------------------

---What a hunk is drawn from: a file that is only looked at, or only renamed, has no text of its own to mark.
---@type table<string, fun(one: dsh.Waiting): table>
local DRAWN = {
  create = function()
    return { oldText = '', newText = '' }
  end,
  rename = function(one)
    local name = vim.fn.fnamemodify(vim.uri_to_fname(one.new_uri), ':~:.')
    return { oldText = '', newText = ('→ is to be renamed to %s\n'):format(name) }
  end,
}

---Show one in its buffer, if that is there and holds what the hunk is for; false to look again soon.
local function show(one)
  if one.mark and marks.is_there(one.mark) then
    return true
  end
  local bufnr = one.kind == 'create' and preview.of(one) or one.kind ~= 'create' and buffers.of(one.uri) or nil
  one.bufnr, one.mark = bufnr, nil
  if not bufnr then
    return true
  end
  local drawn = DRAWN[one.kind] and vim.tbl_extend('force', one.hunk, DRAWN[one.kind](one)) or one.hunk
  local row = DRAWN[one.kind] and 0 or marks.locate(bufnr, drawn)
  if row then
    one.mark = marks.show(bufnr, row, drawn)
  end
  return row ~= nil
end

---Take what waits as the server has it.
local function take(files)
  local now, all_shown = {}, true
  order = {}
  for _, file in ipairs(files) do
    for _, hunk in ipairs(file.hunks) do
      now[hunk.id] = true
      order[#order + 1] = hunk.id
      local one = waiting[hunk.id] or { uri = file.uri, kind = file.kind, proposal = file.proposal }
      one.hunk, one.new_uri, waiting[hunk.id] = hunk, file.newUri, one
      all_shown = show(one) and all_shown
    end
  end
  for id, one in pairs(waiting) do
    if not now[id] then
      waiting[id] = nil
      if one.mark then
        marks.clear(one.mark)
      end
      leaving.add(one)
    end
  end
  preview.close(leaving.over(now))
  update_keys()
  return all_shown
end

---Take what waits, and tell those who asked.
local function settle(files, callbacks)
  local all_shown = take(files)
  for _, callback in ipairs(callbacks) do
    callback()
  end
  return all_shown
end

local function ask(server)
  local session, callbacks = feed.state.session, afterwards
  busy, again, afterwards = true, false, {} -- who asks from now on is told of a younger answer
  client.send(server, protocol.COMMANDS.review_list, { session = session }, function(failure, result)
    busy = false
    if session ~= feed.state.session then
      afterwards = vim.list_extend(callbacks, afterwards)
      return M.refresh()
    end
    tries = settle(failure and {} or result.files, callbacks) and 0 or tries + 1
    if again then
      M.refresh()
    elseif tries > 0 and tries <= TRIES then -- the server has not heard of the last keys yet
      vim.defer_fn(M.refresh, AGAIN_MS)
    end
    leaving.look_again(M.refresh)
    feed.emit('reviewed')
  end)
end

---Ask what waits, and show it; soon, since much may change at once.
---@param callback fun()? called then
function M.refresh(callback)
  afterwards[#afterwards + 1] = callback
  if due then
    return
  end
  due = true
  vim.schedule(function()
    due = false
    local server = client.get()
    if not server or not feed.state.session then
      local callbacks = afterwards
      afterwards = {}
      settle({}, callbacks)
    elseif busy then
      again = true
    else
      ask(server)
    end
  end)
end

---Forget what landed unasked: it is kept, undone, or the next turn has begun.
---@param id string? one of them; all if it is left out
function M.forget_landed(id)
  landed.forget(id)
  update_keys()
end

-- Going there ---------------------------------------------------------------------------------------------------

local function go_to(one)
  if one.kind == 'create' then
    buffers.show(preview.open(one))
  elseif buffers.of(one.uri) ~= vim.api.nvim_get_current_buf() then
    buffers.open(vim.uri_to_fname(one.uri))
  end
  show(one)
  update_keys()
  if one.mark then
    local row = marks.rows(one.mark)
    vim.cmd("normal! m'")
    buffers.go_to_line(row + 1)
    if row == 0 and #one.hunk.oldText == 0 then -- lines above the first one are scrolled to, or not seen
      vim.fn.winrestview({ topline = 1, topfill = #marks.lines_of(one.hunk.newText) })
    end
  end
end

---Go to another hunk: in this buffer, then in the files that follow.
---@param step 1|-1
local function go(step)
  local bufnr, row = vim.api.nvim_get_current_buf(), vim.fn.line('.') - 1
  local found = M.in_buffer(bufnr)
  for i = step == 1 and 1 or #found, step == 1 and #found or 1, step do
    local first = marks.rows(found[i].mark)
    if step == 1 and first > row or step == -1 and first < row then
      return go_to(found[i])
    end
  end
  local files, at = M.files(), 0
  for i, file in ipairs(files) do
    local is_here = buffers.of(file.uri) == bufnr or found[1] ~= nil and found[1].uri == file.uri
    at = is_here and i or at
  end
  local file = files[(at - 1 + step) % math.max(#files, 1) + 1]
  local candidates = vim.tbl_filter(function(one)
    return file ~= nil and one.uri == file.uri
  end, all())
  local target = step == 1 and candidates[1] or candidates[#candidates] or found[1]
  if not target then
    return message.info('nothing waits for a review')
  end
  go_to(target)
end

function M.next()
  go(1)
end

function M.previous()
  go(-1)
end

local WORDS = { create = 'new file', rename = 'is renamed', delete = 'is deleted' }

local function open()
  if #order == 0 then
    return message.info('nothing waits for a review')
  end
  if #M.files() > 1 then
    local items = vim.tbl_map(function(id)
      local one = waiting[id]
      return {
        filename = vim.uri_to_fname(one.uri),
        lnum = one.hunk.range.start.line + 1,
        text = WORDS[one.kind] or vim.trim(marks.lines_of(one.hunk.newText)[1] or 'deleted lines'),
      }
    end, order)
    vim.fn.setqflist({}, ' ', { title = 'dsh review', items = items })
  end
  local here = M.here()
  go_to(here and here.kind ~= 'landed' and here or waiting[order[1]])
end

---Go to the first hunk that waits; those of several files make a quickfix list too.
function M.open()
  if not client.get() then
    return message.info('nothing waits for a review')
  end
  M.refresh(open)
end

-- Following the session -----------------------------------------------------------------------------------------

feed.on('event', function(value, changed)
  if value.type == 'turn/start' then
    M.forget_landed()
  elseif value.type == 'edit/landed' and changed then
    landed.note(value.data, changed)
  elseif value.type == 'review/opened' then
    landed.note_undone(value.data)
  end
  if vim.startswith(value.type, 'review/') or value.type == 'edit/landed' or value.type == 'turn/end' then
    M.refresh()
  end
end)
for name, is_another in pairs({ review = false, session = true, exit = true, start = false }) do
  feed.on(name, function()
    if is_another then
      M.forget_landed()
    end
    M.refresh()
  end)
end
vim.api.nvim_create_autocmd('BufReadPost', { -- a file is opened, or read again, which takes its marks away
  group = vim.api.nvim_create_augroup('dsh.review', {}),
  callback = function()
    if #order > 0 then
      update_keys() -- at once: a key may follow
      M.refresh()
    end
  end,
})

return M
