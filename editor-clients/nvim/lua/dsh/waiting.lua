---Waiting: permissions and questions that wait for the user, and the keys that answer them.
---
---Rules: nothing pops up that takes a key; what waits is said in the conversation or, while that is not open, in a
---corner; the keys are there only while something waits, and each decides the oldest of its kind.

local client = require('dsh.client')
local feed = require('dsh.feed')
local config = require('dsh.config')
local keys = require('dsh.keys')
local message = require('dsh.message')
local protocol = require('dsh.protocol')
local review = require('dsh.review')
local views = require('dsh.view')

local M = {}

local WIDTH = 64
local ns = vim.api.nvim_create_namespace('dsh.waiting')

local told = {} ---@type table<string, table> what the server said of an approval or a question, by id
local set ---@type dsh.Keys?
local float ---@type { win: integer, bufnr: integer }?

---What waits of a kind, oldest first.
---@param kind 'approval'|'question'
---@return dsh.Item[]
function M.pending(kind)
  local view = feed.view()
  local last = view.turns[#view.turns]
  if not last or last.ended or not client.get() then
    return {}
  end
  return vim.tbl_filter(function(item)
    return item.kind == kind and views.waits(item)
  end, last.items)
end

-- Deciding ------------------------------------------------------------------------------------------------------

---@param decision 'allowOnce'|'allowSession'|'reject'
---@param more { comment: string?, save: boolean? }?
function M.decide(decision, more)
  local asked = M.pending('approval')[1]
  if not asked then
    return message.info('nothing waits for your permission')
  end
  local argument = { session = feed.state.session, approval = asked.id, decision = decision }
  client.run(protocol.COMMANDS.approve, vim.tbl_extend('error', argument, more or {}))
end

---Save what the command would not see, and allow it once.
function M.save_and_allow()
  M.decide('allowOnce', { save = true })
end

---The names of the files whose unsaved text a command would pass by.
local function unsaved(asked)
  return vim.tbl_map(function(uri)
    return vim.fn.fnamemodify(vim.uri_to_fname(uri), ':t')
  end, (told[asked.id] or {}).unsaved or {})
end

---Refuse; the words, if there are any, are for the agent. Leaving the prompt refuses nothing.
function M.deny()
  local asked = M.pending('approval')[1]
  if not asked then
    return message.info('nothing waits for your permission')
  end
  vim.ui.input({ prompt = ('Refuse %s. Why (may be empty)? '):format(asked.tool) }, function(words)
    if words then
      M.decide('reject', { comment = words ~= '' and words or nil })
    end
  end)
end

local OWN_WORDS = 'Something else…'

local function send_answer(question, answer)
  local argument = { session = feed.state.session, question = question.id, answer = answer }
  client.run(protocol.COMMANDS.answer, argument)
end

local function write_answer(question)
  vim.ui.input({ prompt = question.text .. ' ' }, function(words)
    if words and words ~= '' then
      send_answer(question, words)
    end
  end)
end

local function answer_question(question)
  if #question.options == 0 then
    return write_answer(question)
  end
  local choices = vim.list_extend({}, question.options)
  if question.freeText then
    choices[#choices + 1] = OWN_WORDS
  end
  vim.ui.select(choices, { prompt = question.text }, function(choice, number)
    if number and number > #question.options then
      write_answer(question)
    elseif choice then
      send_answer(question, choice)
    end
  end)
end

local LATER, ONCE, SESSION, SAVE, REFUSE =
  'Later', 'Allow once', 'Allow for this session', 'Save and allow once', 'Refuse'

local DECIDE = {
  [ONCE] = function()
    M.decide('allowOnce')
  end,
  [SESSION] = function()
    M.decide('allowSession')
  end,
  [SAVE] = M.save_and_allow,
  [REFUSE] = M.deny,
}

---Answer the oldest question; if there is none, choose what to do about the oldest permission.
function M.answer()
  local question, asked = M.pending('question')[1], M.pending('approval')[1]
  if question then
    return answer_question(question)
  elseif not asked then
    return message.info('nothing waits for an answer')
  end
  local choices = { LATER, ONCE, SESSION, REFUSE }
  if #unsaved(asked) > 0 then
    table.insert(choices, 2, SAVE)
  end
  vim.ui.select(choices, { prompt = ('May %s run?'):format(asked.tool) }, function(choice)
    if DECIDE[choice] then
      DECIDE[choice]()
    end
  end)
end

-- Saying so -----------------------------------------------------------------------------------------------------

---@return string[]? lines
local function words()
  local question, asked = M.pending('question')[1], M.pending('approval')[1]
  if asked then
    local more = told[asked.id]
    local lines = { ('May %s run?'):format(asked.tool) }
    vim.list_extend(lines, more and vim.split(more.detail or '', '\n') or asked.effects)
    local names = unsaved(asked)
    if #names > 0 then
      lines[#lines + 1] = ('It would not see what is unsaved in %s.'):format(table.concat(names, ', '))
    end
    return vim.list_extend(lines, { keys.hint('approval') })
  elseif question then
    local lines = vim.split(question.text, '\n')
    for _, option in ipairs(question.options) do
      lines[#lines + 1] = '  ' .. option
    end
    return vim.list_extend(lines, { keys.hint('question') })
  end
  local files = review.files()
  if #files == 0 then
    return nil
  end
  local hunks = 0
  for _, file in ipairs(files) do
    hunks = hunks + file.hunks
  end
  local name = vim.fn.fnamemodify(vim.uri_to_fname(files[1].uri), ':t')
  local where = #files > 1 and ('%s and %d more'):format(name, #files - 1) or name
  local count = hunks == 1 and '1 hunk waits' or ('%d hunks wait'):format(hunks)
  return { ('%s in %s'):format(count, where), keys.hint('review') }
end

local function hide()
  if float then
    if vim.api.nvim_win_is_valid(float.win) then
      vim.api.nvim_win_close(float.win, true)
    end
    float = nil
  end
end

local function is_chat_open()
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.bo[vim.api.nvim_win_get_buf(win)].filetype == 'dsh' then
      return true
    end
  end
  return false
end

local function fit(lines)
  local fitted = {}
  for _, line in ipairs(lines) do
    if vim.trim(line) ~= '' then
      local short = vim.fn.strcharpart(line, 0, WIDTH)
      fitted[#fitted + 1] = short == line and line or vim.fn.strcharpart(line, 0, WIDTH - 1) .. '…'
    end
  end
  if #fitted > 8 then
    fitted = vim.list_extend(vim.list_slice(fitted, 1, 6), { '…', fitted[#fitted] })
  end
  return fitted
end

---Say it in the corner, without taking the cursor or a key.
local function show(lines)
  lines = fit(lines)
  local width = 0
  for _, line in ipairs(lines) do
    width = math.max(width, vim.fn.strdisplaywidth(line))
  end
  if not float or not vim.api.nvim_win_is_valid(float.win) then
    local bufnr = vim.api.nvim_create_buf(false, true)
    vim.bo[bufnr].bufhidden = 'wipe'
    float = { bufnr = bufnr }
  end
  vim.api.nvim_buf_set_lines(float.bufnr, 0, -1, false, lines)
  vim.api.nvim_buf_clear_namespace(float.bufnr, ns, 0, -1)
  vim.api.nvim_buf_set_extmark(float.bufnr, ns, 0, 0, { line_hl_group = 'DshWaiting' })
  vim.api.nvim_buf_set_extmark(float.bufnr, ns, #lines - 1, 0, { line_hl_group = 'DshMuted' })
  local place = {
    relative = 'editor',
    anchor = 'SE',
    row = vim.o.lines - vim.o.cmdheight - (vim.o.laststatus > 0 and 1 or 0),
    col = vim.o.columns,
    width = math.max(width, 1),
    height = #lines,
    border = 'rounded',
    title = { { ' dsh ', 'DshWaiting' } },
    focusable = false,
    style = 'minimal',
    zindex = 45,
  }
  if float.win then
    vim.api.nvim_win_set_config(float.win, place)
  else
    place.noautocmd = true
    float.win = vim.api.nvim_open_win(float.bufnr, false, place)
    vim.wo[float.win].winhighlight = 'NormalFloat:NormalFloat,FloatBorder:DshBorder'
  end
end

local function update_keys(waits)
  if not waits and set then
    keys.clear(set)
    set = nil
  elseif waits and not set then
    local key = config.get().keys
    set = keys.set({
      {
        key.allow,
        function()
          M.decide('allowOnce')
        end,
        'allow once',
      },
      {
        key.allow_session,
        function()
          M.decide('allowSession')
        end,
        'allow for this session',
      },
      { key.save_and_allow, M.save_and_allow, 'save, then allow once' },
      { key.deny, M.deny, 'refuse' },
      { key.answer, M.answer, 'answer' },
    })
  end
end

---Bring keys and corner in line with what waits.
function M.update()
  local waits = #M.pending('approval') > 0 or #M.pending('question') > 0
  update_keys(waits)
  local lines = config.get().float and not is_chat_open() and words() or nil
  if lines then
    show(lines)
  else
    hide()
  end
end

local due = false

local function update_soon()
  if not due then
    due = true
    vim.schedule(function()
      due = false
      M.update()
    end)
  end
end

for _, name in ipairs({ 'session', 'exit', 'start', 'status' }) do
  feed.on(name, update_soon)
end
feed.on('event', function(value)
  if value.seq then
    update_soon()
  end
end)
for _, name in ipairs({ 'approve', 'ask' }) do
  feed.on(name, function(params)
    told[params.approval or params.question] = params
    update_soon()
  end)
end

vim.api.nvim_create_autocmd({ 'VimResized', 'WinEnter', 'WinClosed', 'TabEnter' }, {
  group = vim.api.nvim_create_augroup('dsh.waiting', {}),
  callback = update_soon,
})
vim.api.nvim_create_autocmd('User', {
  group = 'dsh.waiting',
  pattern = 'DshReviewShown',
  callback = update_soon,
})

return M
