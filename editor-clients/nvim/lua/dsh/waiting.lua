---Waiting: permissions and questions that wait for the user, and the keys that answer them.
---
---Rules: nothing pops up that takes a key; what waits is said in the conversation or, while that is not open, in a
---corner; the keys are there only while something waits and a moment longer, and each decides the oldest of its kind.

local calm = require('dsh.calm')
local client = require('dsh.client')
local config = require('dsh.config')
local corner = require('dsh.corner')
local feed = require('dsh.feed')
local keys = require('dsh.keys')
local message = require('dsh.message')
local protocol = require('dsh.protocol')
local review = require('dsh.review')
local views = require('dsh.view')

local M = {}

local READ_MS = 400 -- nobody reads faster

local told = {} ---@type table<string, table> what the server said of an approval or a question, by id
local shown_at = {} ---@type table<string, integer> since when all of the oldest permission could be read, in ms
local shown_in ---@type integer? tab page
local seen = {} ---@type table<string, table<integer, true>> lines of it that were on the screen
local set ---@type dsh.Keys?

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

---Whether something could be read: it is on the screen, and all of it has been there for a moment.
local function has_been_read(asked)
  M.update() -- another tab page may show now
  return shown_at[asked.id] ~= nil and vim.uv.now() - shown_at[asked.id] >= READ_MS
end

-- Deciding ------------------------------------------------------------------------------------------------------

---Decide what is asked for. By a key that is the oldest, and only once it could be read: a key that was meant for the
---one before must not allow it.
---@param decision 'allowOnce'|'allowSession'|'reject'
---@param more { comment: string?, save: boolean? }?
---@param asked dsh.Item? what the user chose to decide
function M.decide(decision, more, asked)
  if not asked then
    asked = M.pending('approval')[1]
    if not asked then
      return message.info('nothing waits for your permission')
    elseif decision ~= 'reject' and not has_been_read(asked) then
      require('dsh.panel').show()
      require('dsh.chat').reveal(asked, seen[asked.id] or {})
      local choose = config.get().keys.answer or ':Dsh answer'
      return message.info(('look at all of it, then press the key again; %s decides at once'):format(choose))
    end
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
---@param asked dsh.Item? the oldest
function M.deny(asked)
  asked = asked or M.pending('approval')[1]
  if not asked then
    return message.info('nothing waits for your permission')
  end
  vim.ui.input({ prompt = ('Refuse %s. Why (may be empty)? '):format(asked.tool) }, function(words)
    if words then
      M.decide('reject', { comment = words ~= '' and words or nil }, asked)
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
  [ONCE] = function(asked)
    M.decide('allowOnce', nil, asked)
  end,
  [SESSION] = function(asked)
    M.decide('allowSession', nil, asked)
  end,
  [SAVE] = function(asked)
    M.decide('allowOnce', { save = true }, asked)
  end,
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
      DECIDE[choice](asked)
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
    vim.list_extend(lines, vim.split(more and more.detail or table.concat(asked.effects, '\n'), '\n'))
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

local function is_chat_open()
  for _, win in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.bo[vim.api.nvim_win_get_buf(win)].filetype == 'dsh' then
      return true
    end
  end
  return false
end

local function update_keys(waits)
  if not waits and set then
    keys.leave(set, function()
      set = nil
    end)
  elseif waits and set then
    keys.stay(set)
  elseif waits then
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

---Whether every line of something has been on the screen, and some are there now.
local function is_seen_in_chat(asked)
  local visible, count = require('dsh.chat').visible(asked)
  local lines = seen[asked.id] or {}
  seen = { [asked.id] = lines } -- of the oldest one alone
  for line in pairs(visible) do
    lines[line] = true
  end
  return next(visible) ~= nil and vim.tbl_count(lines) == count, next(visible) ~= nil
end

---Say what waits where it can be read; whether all of it can be or could be.
---@return boolean
local function say()
  local asked = M.pending('approval')[1] or M.pending('question')[1]
  local whole, in_chat = false, is_chat_open()
  if asked then
    whole, in_chat = is_seen_in_chat(asked)
  end
  local lines = config.get().float and not in_chat and words() or nil
  if not lines then
    corner.hide()
    return whole
  end
  return corner.show(lines)
end

---Bring keys and corner in line with what waits.
function M.update()
  if vim.fn.getcmdwintype() ~= '' then
    return -- no window can be opened beside that of the command line
  end
  local asked = M.pending('approval')[1]
  update_keys(asked ~= nil or #M.pending('question') > 0)
  local whole, here = say(), vim.api.nvim_get_current_tabpage()
  local since = asked and shown_in == here and shown_at[asked.id] or vim.uv.now()
  shown_at, shown_in = asked and whole and { [asked.id] = since } or {}, here
end

local due = false

local function update_soon()
  if not due then
    due = true
    vim.schedule(function()
      calm.run(function()
        due = false
        M.update()
      end)
    end)
  end
end

for _, name in ipairs({ 'session', 'exit', 'start', 'status', 'drawn', 'reviewed' }) do
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

vim.api.nvim_create_autocmd({ 'VimResized', 'WinEnter', 'WinClosed', 'WinScrolled', 'TabEnter', 'CmdwinLeave' }, {
  group = vim.api.nvim_create_augroup('dsh.waiting', {}),
  callback = update_soon,
})
return M
