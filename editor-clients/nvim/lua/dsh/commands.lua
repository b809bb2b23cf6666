---Commands: the subcommands of `:Dsh`, in one table: what they do, what they take, how they complete.

local client = require('dsh.client')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

local SERVER = protocol.COMMANDS

---@class dsh.Call
---@field words string all after the subcommand
---@field args string[] the same, word by word
---@field range { line1: integer, line2: integer }?
---@field bang boolean

---@class dsh.Subcommand
---@field run fun(call: dsh.Call)
---@field help string
---@field takes string? what may follow
---@field complete (fun(): string[])?

local function lazy(module, name, ...)
  local given = { ... }
  return function()
    require('dsh.' .. module)[name](unpack(given))
  end
end

---Of the current session; without one the server has nothing to do it with.
local function with_session(callback)
  local id = client.state.session
  if not id then
    return message.info('there is no session yet; :Dsh ask begins one')
  end
  callback(id)
end

local function run_in_session(command, argument, callback)
  with_session(function(id)
    client.run(command, vim.tbl_extend('force', { session = id }, argument or {}), callback)
  end)
end

-- Words for the agent -------------------------------------------------------------------------------------------

local function say(command)
  return function(call)
    local panel, input = require('dsh.panel'), require('dsh.input')
    local item, name
    if call.range then
      item, name = require('dsh.context').of_range(vim.api.nvim_get_current_buf(), call.range)
    end
    if call.words == '' then
      panel.write()
      if item then
        input.attach(item, name)
      end
      return
    end
    panel.show()
    local text = call.words
    client.run(command, { text = text, context = item and { item } or nil }, nil, function(failure)
      input.put_back(text, item, name)
      client.tell(failure)
    end)
  end
end

local function cancel()
  with_session(function(id)
    client.run(SERVER.cancel, { session = id }, function(result)
      if not result.wasRunning then
        message.info('nothing runs')
      elseif result.waitingForTool then
        message.info('a tool is still being stopped; cancel again to wait for it no longer')
      end
    end)
  end)
end

-- Sessions ------------------------------------------------------------------------------------------------------

local function ago(time)
  local seconds = math.max(0, os.time() - math.floor(time / 1000))
  for _, unit in ipairs({ { 86400, 'd' }, { 3600, 'h' }, { 60, 'min' } }) do
    if seconds >= unit[1] then
      return ('%d %s ago'):format(seconds / unit[1], unit[2])
    end
  end
  return 'just now'
end

---@param all boolean those of other workspaces too
---@param prompt string
---@param callback fun(summary: table)
local function pick_session(all, prompt, callback)
  client.run(SERVER.session_list, { root = not all and client.root() or nil }, function(result)
    if #result.sessions == 0 then
      return message.info('there are no sessions here yet')
    end
    local options = {
      prompt = prompt,
      kind = 'dsh.session',
      format_item = function(one)
        local turns = one.turns == 1 and '1 turn' or ('%d turns'):format(one.turns)
        local title = one.title ~= '' and one.title or 'untitled'
        return ('%s  (%s, %s%s)'):format(title, turns, ago(one.updatedAt), all and ', ' .. one.root or '')
      end,
    }
    vim.ui.select(result.sessions, options, function(choice)
      if choice then
        callback(choice)
      end
    end)
  end)
end

local function sessions(call)
  pick_session(call.bang, 'Go on with a session', function(one)
    client.run(SERVER.session_open, { session = one.session, after = client.state.seqs[one.session] }, function()
      require('dsh.panel').show()
    end)
  end)
end

local function new(call)
  client.run(SERVER.session_new, { title = call.words ~= '' and call.words or nil }, lazy('panel', 'write'))
end

local function rename(call)
  with_session(function(id)
    local function send(title)
      if title and title ~= '' then
        client.run(SERVER.session_rename, { session = id, title = title })
      end
    end
    if call.words ~= '' then
      return send(call.words)
    end
    vim.ui.input({ prompt = 'Title: ', default = client.view().title }, send)
  end)
end

local function delete()
  pick_session(false, 'Throw a session away', function(one)
    client.run(SERVER.session_delete, { session = one.session }, function()
      client.forget(one.session)
      message.info('it is in the trash folder of the sessions')
    end)
  end)
end

local function export()
  run_in_session(SERVER.session_export, { format = 'markdown' }, function(result)
    vim.cmd('tabnew')
    vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split(result.text, '\n'))
    vim.bo.filetype = 'markdown'
  end)
end

local function turn_numbers()
  return vim.tbl_map(function(turn)
    return tostring(turn.turn)
  end, client.view().turns)
end

---@return integer? turn, boolean wrong
local function turn_in(call)
  local turn = tonumber(call.args[1])
  if call.words ~= '' and not turn then
    message.warn(('%s is not the number of a turn'):format(call.words))
    return nil, true
  end
  return turn, false
end

local function fork(call)
  local turn, wrong = turn_in(call)
  if not wrong then
    run_in_session(SERVER.session_fork, { turn = turn }, function(summary)
      client.run(SERVER.session_open, { session = summary.session }, function()
        message.info('this session is a fork now; the other one is in :Dsh sessions')
      end)
    end)
  end
end

---The turns that changed files, latest first.
local function turns_with_edits()
  local found = {}
  for _, turn in ipairs(client.view().turns) do
    local files = {}
    for _, item in ipairs(turn.items) do
      for _, file in ipairs(item.kind == 'review' and item.files or {}) do
        for _, hunk in ipairs(file.hunks) do
          if hunk.landed or hunk.outcome == 'landed' then
            files[vim.fn.fnamemodify(vim.uri_to_fname(file.uri), ':t')] = true
          end
        end
      end
    end
    if next(files) then
      table.insert(found, 1, { turn = turn.turn, files = vim.tbl_keys(files) })
    end
  end
  return found
end

local function rewind(call)
  local turn, wrong = turn_in(call)
  if wrong then
    return
  elseif turn then
    return run_in_session(SERVER.rewind, { turn = turn })
  end
  local found = turns_with_edits()
  if #found == 0 then
    return message.info('no turn of this session has changed a file')
  end
  local options = {
    prompt = 'Undo the edits of a turn',
    format_item = function(one)
      return ('turn %d: %s'):format(one.turn, table.concat(one.files, ', '))
    end,
  }
  vim.ui.select(found, options, function(choice)
    if choice then
      run_in_session(SERVER.rewind, { turn = choice.turn })
    end
  end)
end

-- Mode and model ------------------------------------------------------------------------------------------------

local MODES = { 'ask', 'auto-edit', 'plan', 'read-only' }
local MODE_HELP = {
  ask = 'edits are reviewed, commands approved',
  ['auto-edit'] = 'edits land at once, commands are approved',
  plan = 'nothing is changed; the aim is a plan',
  ['read-only'] = 'nothing is changed',
}

local function mode(call)
  local function set(name)
    client.run(SERVER.mode_set, { mode = name, session = client.state.session })
  end
  if call.words ~= '' then
    return set(call.words)
  end
  local options = {
    prompt = 'Mode',
    format_item = function(name)
      return ('%s: %s'):format(name, MODE_HELP[name])
    end,
  }
  vim.ui.select(MODES, options, function(choice)
    if choice then
      set(choice)
    end
  end)
end

local wants_models = false

---The models that the server told of, each as `provider/name`.
local function model_names()
  local names = {}
  for _, one in ipairs((client.state.models or {}).models or {}) do
    names[#names + 1] = type(one) == 'table' and ('%s/%s'):format(one.provider or '', one.name) or one
  end
  return names
end

local function set_model(name)
  local provider, model = name:match('^([^/]+)/(.+)$')
  local told = client.state.status or {}
  provider = provider or (told.model or {}).provider or client.view().provider
  client.run(SERVER.model_set, { provider = provider, name = model or name, session = client.state.session })
end

local function pick_model()
  local names = model_names()
  if #names == 0 then
    return message.info('the endpoint names no models; :Dsh model PROVIDER/NAME sets one')
  end
  vim.ui.select(names, { prompt = 'Model', kind = 'dsh.model' }, function(choice)
    if choice then
      set_model(choice)
    end
  end)
end

local function model(call)
  if call.words ~= '' then
    return set_model(call.words)
  end
  wants_models = true
  client.run(SERVER.model_list, { session = client.state.session })
end

---What comes of commands that are only accepted when they answer.
local TOLD = {
  ['model/list'] = function()
    if wants_models then
      wants_models = false
      pick_model()
    end
  end,
  ['rewind/done'] = function(data)
    local undone = #data.undone == 1 and '1 edit' or ('%d edits'):format(#data.undone)
    local words = ('turn %d: %s undone'):format(data.turn, undone)
    if #data.left > 0 then
      local first = data.left[1]
      local name = vim.fn.fnamemodify(vim.uri_to_fname(first.uri), ':t')
      return message.warn(('%s, %d left (%s: %s)'):format(words, #data.left, name, first.reason))
    end
    message.info(words)
  end,
  ['compact/done'] = function(data)
    message.info(data.message or data.summary or 'the history is compacted')
  end,
}

client.on('event', function(value)
  if TOLD[value.type] then
    TOLD[value.type](value.data or {})
  end
end)

-- The server ----------------------------------------------------------------------------------------------------

---Where servers write their logs.
local function log_folder()
  if vim.fn.has('mac') == 1 then
    return vim.fn.expand('~/Library/Application Support/dsh_lsp/logs')
  end
  return vim.fs.joinpath(vim.env.XDG_STATE_HOME or vim.fn.expand('~/.local/state'), 'dsh_lsp', 'logs')
end

---The newest log file of a server.
---@return string?
function M.log_file()
  local newest, time, folder = nil, -1, log_folder()
  for name, kind in vim.fs.dir(folder) do
    local path = vim.fs.joinpath(folder, name)
    local stat = kind == 'file' and vim.uv.fs_stat(path)
    if stat and stat.mtime.sec > time then
      newest, time = path, stat.mtime.sec
    end
  end
  return newest
end

local function log()
  local path = M.log_file()
  if not path then
    return message.info('the server has logged nothing; DSH_LOG_LEVEL=INFO makes it say more')
  end
  require('dsh.buffers').open(path)
  vim.bo.readonly = true
  vim.cmd('normal! G')
end

-- The table -----------------------------------------------------------------------------------------------------

local SCOPES = { 'hunk', 'file', 'all' }

local function scopes()
  return SCOPES
end

local function modes()
  return MODES
end

local function decide(name)
  return function(call)
    local scope = call.args[1] or 'hunk'
    if not vim.list_contains(SCOPES, scope) then
      return message.warn(('%s is none of hunk, file, all'):format(scope))
    end
    local comment = call.words:match('^%S+%s+(.+)$')
    require('dsh.verdict')[name](scope, comment)
  end
end

---@type table<string, dsh.Subcommand>
M.SUBCOMMANDS = {
  chat = { run = lazy('panel', 'toggle'), help = 'open or close the conversation' },
  ask = { run = say(SERVER.followup), takes = '[words]', help = 'ask; a range goes with it as context' },
  steer = { run = say(SERVER.steer), takes = '[words]', help = 'say something to the turn that runs' },
  inject = { run = say(SERVER.inject), takes = '[words]', help = 'leave context for the next step' },
  cancel = { run = cancel, help = 'stop the turn that runs; what waits stays' },
  queue = { run = lazy('queue', 'open'), help = 'see, change and drop what waits' },
  resume = {
    run = function()
      run_in_session(SERVER.inbox_resume)
    end,
    help = 'run what waits since a turn ended badly',
  },
  retry = {
    run = function()
      run_in_session(SERVER.retry)
    end,
    help = 'run again what a failed or cancelled turn owes',
  },
  review = { run = lazy('review', 'open'), help = 'go to the edits that wait for you' },
  next = { run = lazy('review', 'next'), help = 'go to the next proposed hunk' },
  previous = { run = lazy('review', 'previous'), help = 'go to the one before' },
  accept = {
    run = decide('accept'),
    takes = '[hunk|file|all]',
    complete = scopes,
    help = 'accept edits, or keep those that landed',
  },
  reject = {
    run = decide('reject'),
    takes = '[hunk|file|all [why]]',
    complete = scopes,
    help = 'reject edits, or undo those that landed',
  },
  edit = { run = lazy('verdict', 'edit'), help = 'change the hunk under the cursor before it lands' },
  allow = {
    run = function(call)
      local waiting = require('dsh.waiting')
      if call.args[1] == 'save' then
        return waiting.save_and_allow()
      end
      waiting.decide(call.args[1] == 'session' and 'allowSession' or 'allowOnce')
    end,
    takes = '[once|session|save]',
    complete = function()
      return { 'once', 'save', 'session' }
    end,
    help = 'allow what asks for permission',
  },
  deny = {
    run = function(call)
      if call.words == '' then
        return require('dsh.waiting').deny()
      end
      require('dsh.waiting').decide('reject', { comment = call.words })
    end,
    takes = '[why]',
    help = 'refuse it',
  },
  answer = { run = lazy('waiting', 'answer'), help = 'answer the question that waits' },
  sessions = { run = sessions, help = 'go on with a session; with ! of any workspace' },
  new = { run = new, takes = '[title]', help = 'begin a session' },
  rename = { run = rename, takes = '[title]', help = 'give the session a title' },
  delete = { run = delete, help = 'throw a session away' },
  export = { run = export, help = 'the session as a Markdown text' },
  fork = { run = fork, takes = '[turn]', complete = turn_numbers, help = 'begin a session with this history' },
  rewind = { run = rewind, takes = '[turn]', complete = turn_numbers, help = 'undo the edits of a turn' },
  compact = {
    run = function()
      run_in_session(SERVER.compact)
    end,
    help = 'make the history shorter',
  },
  mode = { run = mode, takes = '[mode]', complete = modes, help = 'say what the agent may do unasked' },
  model = { run = model, takes = '[[provider/]name]', complete = model_names, help = 'choose the model' },
  restart = {
    run = function()
      client.restart()
    end,
    help = 'start the server again; the session goes on',
  },
  stop = {
    run = function()
      client.stop()
    end,
    help = 'stop the server; what waits is kept',
  },
  log = { run = log, help = "the server's log" },
}

---@param call table what `nvim_create_user_command` gives
function M.run(call)
  local name = call.fargs[1] or 'chat'
  local subcommand = M.SUBCOMMANDS[name]
  if not subcommand then
    local found = vim.fn.matchfuzzy(vim.tbl_keys(M.SUBCOMMANDS), name)
    local like = found[1] and (', do you mean %s?'):format(found[1]) or ''
    return message.warn(('there is no :Dsh %s%s'):format(name, like))
  end
  require('dsh.chat') -- they listen from the first command on
  require('dsh.review')
  require('dsh.waiting')
  subcommand.run({
    words = vim.trim((call.args:gsub('^%s*%S+', '', 1))),
    args = vim.list_slice(call.fargs, 2),
    range = call.range > 0 and { line1 = call.line1, line2 = call.line2 } or nil,
    bang = call.bang,
  })
end

---@return string[]
function M.complete(lead, line, position)
  local before = vim.split(line:sub(1, position), '%s+')
  while before[1] and not before[1]:match('Dsh!?$') do
    table.remove(before, 1)
  end
  local choices = {}
  if #before <= 2 then
    choices = vim.tbl_keys(M.SUBCOMMANDS)
    table.sort(choices)
  elseif #before == 3 and M.SUBCOMMANDS[before[2]] and M.SUBCOMMANDS[before[2]].complete then
    choices = M.SUBCOMMANDS[before[2]].complete()
  end
  return vim.tbl_filter(function(choice)
    return vim.startswith(choice, lead)
  end, choices)
end

return M
