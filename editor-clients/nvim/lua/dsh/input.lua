---Input: the area below the conversation where the user writes to the agent.
---
---Rules: what was written is not lost: it stays until the server has it on disk, and comes back if it could not be
---sent.

local client = require('dsh.client')
local config = require('dsh.config')
local keys = require('dsh.keys')
local protocol = require('dsh.protocol')
local scratch = require('dsh.scratch')

local M = {}

local NAME = 'dsh://input'
local ns = vim.api.nvim_create_namespace('dsh.input')

---What the next message can be beside a question: what it is called, what it does.
local KINDS = {
  [protocol.COMMANDS.steer] = { 'Steer…', 'joins the running turn' },
  [protocol.COMMANDS.inject] = { 'Leave context…', 'is left for the next step, and starts nothing' },
}

local bufnr ---@type integer?
local context = {} ---@type { item: table, name: string }[] what goes with the next message
local next_command = nil ---@type string? of the next message, if it is no question
local unsent = {} ---@type string[] what stood in the buffer when it was unloaded

local function lines()
  return vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)
end

---Draw what goes with the message, and what one can do while it is empty.
local function decorate()
  vim.api.nvim_buf_clear_namespace(bufnr, ns, 0, -1)
  local names = vim.tbl_map(function(part)
    return part.name
  end, context)
  local chips = {}
  if next_command then
    chips[1] = { { '↳ ' .. KINDS[next_command][2], 'DshLink' } }
  end
  if #names > 0 then
    chips[#chips + 1] =
      { { '↳ ' .. table.concat(names, ', '), 'DshLink' }, { '  with the next message', 'DshMuted' } }
  end
  if #chips > 0 then
    vim.api.nvim_buf_set_extmark(bufnr, ns, 0, 0, { virt_lines = chips, virt_lines_above = false })
  end
  if table.concat(lines()) == '' then
    local key = config.get().keys
    local words = keys.words({ { key.send, 'send' }, { key.steer, 'steer' }, { key.cancel, 'cancel' } })
    vim.api.nvim_buf_set_extmark(bufnr, ns, 0, 0, {
      virt_text = { { next_command and KINDS[next_command][1] or 'Ask…  ' .. words, 'DshMuted' } },
      virt_text_pos = 'overlay',
    })
  end
end

---Put words back that could not be sent, before what has been written since.
local function give_back(words)
  M.buffer() -- it may have been wiped out meanwhile
  local now = lines()
  local given = vim.split(words, '\n', { plain = true })
  vim.api.nvim_buf_set_lines(bufnr, 0, #now == 1 and now[1] == '' and 1 or 0, false, given)
  decorate()
end

---Send what is written.
---@param command string? another one than what it was begun as
function M.send(command)
  local words = vim.trim(table.concat(lines(), '\n'))
  if words == '' then
    return
  end
  local sent = vim.tbl_map(function(part)
    return part.item
  end, context)
  local kept, kind = context, next_command
  context, next_command = {}, nil
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, {})
  decorate()
  local argument = { text = words, context = #sent > 0 and sent or nil }
  client.run(command or kind or protocol.COMMANDS.followup, argument, nil, function(failure)
    context = vim.list_extend(kept, context)
    next_command = next_command or kind
    give_back(words)
    client.tell(failure)
  end)
end

---Say what the next message will be.
---@param command string
function M.begin(command)
  next_command = KINDS[command] and command or nil
  decorate()
end

---Let something go with the next message.
---@param item table an item of `context`
---@param name string
function M.attach(item, name)
  context[#context + 1] = { item = item, name = name }
  decorate()
end

---Put words back that could not be sent, with what should have gone with them.
---@param words string
---@param item table?
---@param name string?
function M.put_back(words, item, name)
  if item then
    context[#context + 1] = { item = item, name = name }
  end
  give_back(words)
end

local function send()
  if vim.fn.pumvisible() == 1 then -- the key is for the completion that is shown
    return vim.api.nvim_feedkeys(vim.keycode('<C-y>'), 'n', false)
  end
  M.send()
end

---Its own keys.
---@return dsh.Map[]
function M.maps()
  local key = config.get().keys
  return {
    { { 'n', 'i' }, key.send, send, 'send' },
    {
      { 'n', 'i' },
      key.steer,
      function()
        M.send(protocol.COMMANDS.steer)
      end,
      'steer the running turn',
    },
    { 'i', key.newline, '<CR>', 'begin a line' },
  }
end

local function prepare(made, group)
  vim.bo[made].syntax = 'dsh'
  vim.api.nvim_buf_set_lines(made, 0, -1, false, unsent)
  vim.api.nvim_create_autocmd(
    { 'TextChanged', 'TextChangedI' },
    { group = group, buffer = made, callback = decorate }
  )
  vim.api.nvim_create_autocmd('BufUnload', {
    group = group,
    buffer = made,
    callback = function()
      unsent = vim.api.nvim_buf_get_lines(made, 0, -1, false)
      vim.schedule(function()
        if vim.api.nvim_buf_is_loaded(made) then -- it was read anew
          M.buffer()
        end
      end)
    end,
  })
end

---@return integer
function M.buffer()
  if not scratch.is_intact(bufnr) then
    bufnr = scratch.buffer(NAME, { bufhidden = 'hide', filetype = 'dsh-input' }, prepare)
    decorate()
  end
  return bufnr
end

return M
