---Commands: the subcommands of `:Dsh`, in one table: what they do, what they take, how they complete.

local client = require('dsh.client')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

local SERVER = protocol.COMMANDS

---@class dsh.Call
---@field words string all after the subcommand
---@field args string[] the same, word by word
---@field range { line1: integer, line2: integer, count: integer }?
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

---The same, for what takes the call.
local function of(module, name)
  return function(...)
    return require('dsh.' .. module)[name](...)
  end
end

local function in_session(command)
  return function()
    require('dsh.sessions').run_in_session(command)
  end
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
      input.begin(command)
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
  require('dsh.sessions').with_session(function(id)
    client.run(SERVER.cancel, { session = id }, function(result)
      if not result.wasRunning then
        message.info('nothing runs')
      elseif result.waitingForTool then
        message.info('a tool is still being stopped; cancel again to wait for it no longer')
      end
    end)
  end)
end

local function resume()
  require('dsh.sessions').with_session(function(id)
    client.run(SERVER.inbox_list, { session = id }, function(waits)
      if #waits.nextStep + #waits.nextTurn == 0 then
        return message.info('nothing waits')
      end
      client.run(SERVER.inbox_resume, { session = id })
    end)
  end)
end

-- The server ----------------------------------------------------------------------------------------------------

---Where servers write their logs.
local function log_folder()
  if vim.fn.has('mac') == 1 then
    return vim.fn.expand('~/Library/Application Support/dsh_lsp/logs')
  end
  return vim.fs.joinpath(vim.env.XDG_STATE_HOME or vim.fn.expand('~/.local/state'), 'dsh_lsp', 'logs')
end

---The processes below this one.
local function descendants(pid, found)
  for _, child in ipairs(vim.api.nvim_get_proc_children(pid)) do
    found[tostring(child)] = true
    descendants(child, found)
  end
  return found
end

---The log file of our server, or the newest one where that is not known.
---@return string?
function M.log_file()
  local newest, time, folder, ours = nil, -1, log_folder(), descendants(vim.fn.getpid(), {})
  for name, kind in vim.fs.dir(folder) do
    local path = vim.fs.joinpath(folder, name)
    local stat = kind == 'file' and vim.uv.fs_stat(path)
    if stat and ours[name:match('%-(%d+)%.log$')] then
      return path
    elseif stat and stat.mtime.sec > time then
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
  return require('dsh.choices').MODES
end

local function turn_numbers()
  return require('dsh.sessions').turn_numbers()
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

local ALLOW = {
  once = { 'allowOnce' },
  session = { 'allowSession' },
  save = { 'allowOnce', { save = true } },
}

local function allow(call)
  local how = ALLOW[call.words == '' and 'once' or call.words]
  if not how then
    return message.warn(('%s is none of once, session, save: nothing is allowed'):format(call.words))
  end
  require('dsh.waiting').decide(unpack(how))
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
    run = resume,
    help = 'run what waits since a turn ended badly',
  },
  retry = {
    run = in_session(SERVER.retry),
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
    run = allow,
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
  sessions = { run = of('sessions', 'sessions'), help = 'go on with a session; with ! of any workspace' },
  new = { run = of('sessions', 'new'), takes = '[title]', help = 'begin a session' },
  rename = { run = of('sessions', 'rename'), takes = '[title]', help = 'give the session a title' },
  delete = { run = of('sessions', 'delete'), help = 'throw a session away' },
  export = { run = of('sessions', 'export'), help = 'the session as a Markdown text' },
  fork = {
    run = of('sessions', 'fork'),
    takes = '[turn]',
    complete = turn_numbers,
    help = 'begin a session with this history',
  },
  rewind = {
    run = of('sessions', 'rewind'),
    takes = '[turn]',
    complete = turn_numbers,
    help = 'undo the edits of a turn',
  },
  compact = {
    run = in_session(SERVER.compact),
    help = 'make the history shorter',
  },
  mode = {
    run = of('choices', 'mode'),
    takes = '[mode]',
    complete = modes,
    help = 'say what the agent may do unasked',
  },
  model = {
    run = of('choices', 'model'),
    takes = '[[provider/]name]',
    complete = of('choices', 'complete_models'),
    help = 'choose the model',
  },
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
  local words = vim.trim((call.args:gsub('^%s*%S+', '', 1)))
  if words ~= '' and not subcommand.takes then
    return message.warn((':Dsh %s takes nothing after it, not %s'):format(name, words))
  end
  require('dsh.chat') -- these listen from the first command on
  require('dsh.choices')
  require('dsh.sessions')
  require('dsh.review')
  require('dsh.waiting')
  subcommand.run({
    words = words,
    args = vim.list_slice(call.fargs, 2),
    range = call.range > 0 and { line1 = call.line1, line2 = call.line2, count = call.range } or nil,
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
