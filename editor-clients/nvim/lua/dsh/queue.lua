---Queue: what waits for the agent, in a window where it can be seen, changed and dropped.

local client = require('dsh.client')
local feed = require('dsh.feed')
local keys = require('dsh.keys')
local protocol = require('dsh.protocol')
local scratch = require('dsh.scratch')

local M = {}

local ns = vim.api.nvim_create_namespace('dsh.queue')
local bufnr ---@type integer?
local entries = {} ---@type { message: string, text: string, steers: boolean }[] by line

local function draw(result)
  entries = {}
  for _, list in ipairs({ { result.nextStep, true }, { result.nextTurn, false } }) do
    for _, one in ipairs(list[1]) do
      entries[#entries + 1] = { message = one.message, text = one.text, steers = list[2] }
    end
  end
  if not scratch.is_intact(bufnr) then
    return
  end
  local lines = vim.tbl_map(function(one)
    return (one.text:gsub('%s*\n%s*', ' ⏎ '))
  end, entries)
  vim.bo[bufnr].modifiable = true
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, lines)
  vim.bo[bufnr].modifiable = false
  vim.api.nvim_buf_clear_namespace(bufnr, ns, 0, -1)
  if #entries == 0 then
    local nothing = { virt_text = { { 'nothing waits', 'DshMuted' } }, virt_text_pos = 'overlay' }
    vim.api.nvim_buf_set_extmark(bufnr, ns, 0, 0, nothing)
  end
  for i, one in ipairs(entries) do
    vim.api.nvim_buf_set_extmark(bufnr, ns, i - 1, 0, {
      virt_text = { { one.steers and 'next step  ' or 'next turn  ', one.steers and 'DshRunning' or 'DshMuted' } },
      virt_text_pos = 'inline',
      right_gravity = false,
    })
  end
end

local function of_session(argument)
  return vim.tbl_extend('force', { session = feed.state.session }, argument or {})
end

local function failed(failure)
  client.tell(failure)
  M.refresh()
end

---Ask again what waits.
function M.refresh()
  if client.get() and scratch.is_intact(bufnr) then
    local asked = feed.state.session
    client.run(protocol.COMMANDS.inbox_list, of_session(), function(result)
      if asked == feed.state.session then
        draw(result)
      end
    end)
  end
end

local function here()
  return entries[vim.fn.line('.')]
end

local function drop()
  local one = here()
  if one then
    client.run(protocol.COMMANDS.inbox_remove, of_session({ message = one.message }), draw, failed)
  end
end

local function change()
  local one = here()
  if not one then
    return
  end
  local session = feed.state.session
  scratch.correct({
    name = 'dsh://queue/' .. one.message,
    lines = vim.split(one.text, '\n'),
    filetype = 'dsh-input',
    winbar = '%#DshMuted# :w changes what waits · :q! leaves it as it is',
    write = function(text, done, not_changed)
      local argument = { session = session, message = one.message, text = text }
      client.run(protocol.COMMANDS.inbox_edit, argument, function(result)
        draw(result)
        done()
      end, function(failure)
        not_changed()
        failed(failure)
      end)
    end,
  })
end

local function resume()
  client.run(protocol.COMMANDS.inbox_resume, of_session(), draw)
end

local function prepare(made)
  keys.own(made, {
    { 'n', 'dd', drop, 'drop what the cursor is on' },
    { 'n', '<CR>', change, 'change it' },
    { 'n', 'r', resume, 'run what waits' },
    { 'n', 'q', '<Cmd>close<CR>', 'close' },
  })
end

---Show what waits.
function M.open()
  if not scratch.is_intact(bufnr) then
    local options = { bufhidden = 'wipe', modifiable = false, filetype = 'dsh-queue' }
    bufnr = scratch.buffer('dsh://queue', options, prepare)
  end
  local win = vim.fn.bufwinid(bufnr)
  if win ~= -1 then
    vim.api.nvim_set_current_win(win)
  else
    vim.api.nvim_open_win(bufnr, true, { split = 'below', win = -1, height = 6 })
    vim.wo.winbar = '%#DshTitle# queue %#DshMuted# <CR> change · dd drop · r run · q close'
    vim.wo.number, vim.wo.relativenumber, vim.wo.signcolumn = false, false, 'no'
  end
  client.with(M.refresh)
end

feed.on('session', function()
  draw({ nextStep = {}, nextTurn = {} }) -- of the session that was left
  if feed.state.session then
    M.refresh()
  end
end)
feed.on('event', function(value)
  if value.type == 'agent/inbox/spliced' then
    M.refresh()
  end
end)

return M
