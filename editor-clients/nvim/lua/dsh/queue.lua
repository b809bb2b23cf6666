---Queue: what waits for the agent, in a window where it can be seen, changed and dropped.

local client = require('dsh.client')
local feed = require('dsh.feed')
local protocol = require('dsh.protocol')

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
  if not bufnr or not vim.api.nvim_buf_is_valid(bufnr) then
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
  if client.get() and bufnr and vim.api.nvim_buf_is_valid(bufnr) then
    client.run(protocol.COMMANDS.inbox_list, of_session(), draw)
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
  local edit = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_name(edit, 'dsh://queue/' .. one.message)
  vim.api.nvim_buf_set_lines(edit, 0, -1, false, vim.split(one.text, '\n'))
  vim.bo[edit].buftype = 'acwrite'
  vim.bo[edit].bufhidden = 'wipe'
  vim.bo[edit].filetype = 'dsh-input'
  vim.bo[edit].modified = false
  vim.api.nvim_open_win(edit, true, { split = 'below', height = 5 })
  vim.wo.winbar = '%#DshMuted# :w changes what waits · :q! leaves it as it is'
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    buffer = edit,
    callback = function()
      local text = table.concat(vim.api.nvim_buf_get_lines(edit, 0, -1, false), '\n')
      vim.bo[edit].modified = false
      client.run(protocol.COMMANDS.inbox_edit, of_session({ message = one.message, text = text }), function(result)
        draw(result)
        if vim.api.nvim_buf_is_valid(edit) then
          vim.api.nvim_buf_delete(edit, { force = true })
        end
      end, function(failure)
        if vim.api.nvim_buf_is_valid(edit) then
          vim.bo[edit].modified = true
        end
        client.tell(failure)
      end)
    end,
  })
end

---Show what waits.
function M.open()
  if not bufnr or not vim.api.nvim_buf_is_valid(bufnr) then
    bufnr = vim.api.nvim_create_buf(false, true)
    vim.api.nvim_buf_set_name(bufnr, 'dsh://queue')
    vim.bo[bufnr].bufhidden = 'wipe'
    vim.bo[bufnr].modifiable = false
    vim.bo[bufnr].filetype = 'dsh-queue'
    local function map(lhs, rhs, what)
      vim.keymap.set('n', lhs, rhs, { buffer = bufnr, nowait = true, desc = 'dsh: ' .. what })
    end
    map('dd', drop, 'drop what the cursor is on')
    map('<CR>', change, 'change it')
    map('r', function()
      client.run(protocol.COMMANDS.inbox_resume, of_session(), draw)
    end, 'run what waits')
    map('q', '<Cmd>close<CR>', 'close')
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

feed.on('event', function(value)
  if value.type == 'agent/inbox/spliced' then
    M.refresh()
  end
end)

return M
