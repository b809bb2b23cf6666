---Client: the connection to the server: its start, its end, its commands.
---
---Rules: one server for one Neovim, whatever files it holds; our frames of `$/progress` reach nobody else, and all
---others reach whoever had them; a server that ends is told of once, and the next command or key starts it again with
---the same session.

local calm = require('dsh.calm')
local config = require('dsh.config')
local feed = require('dsh.feed')
local message = require('dsh.message')
local protocol = require('dsh.protocol')
local requests = require('dsh.requests')

local M = {}

M.NAME = 'dsh_lsp'

local STOP_MS = 3000 -- the server takes at most 2 s for its goodbye
local START_MS = 20000 -- a slow machine takes a tenth of that

---@class dsh.Waiter
---@field ready fun(client: vim.lsp.Client)
---@field failed fun(failure: { message: string })

local waiting = nil ---@type dsh.Waiter[]? for the server to be ready
local state = feed.state
local unanswered = {} ---@type table<fun(failure: table?, result: table?), true> callbacks of commands
local stopping = false
local leaving = nil ---@type dsh.Waiter[]? for the next server, while this one ends
local token ---@type string
local started = nil ---@type integer? id of the client, ready or not
local given_up = {} ---@type table<integer, true> clients whose end nobody waits for
local root = nil ---@type string? where the server runs, or ran last
local torn = false -- what it told last may be in no log: the next server may tell other events by the same numbers
local exit = nil ---@type { code: integer, signal: integer }?

local function on_progress(err, params, context)
  if params and params.token == token then
    feed.take(params.value)
    return
  end
  return vim.lsp.handlers['$/progress'](err, params, context)
end

-- Starting and ending -------------------------------------------------------------------------------------------

---The folder that the agent works in: that of the working directory's project when it began.
---@return string
function M.root()
  if root and (state.client_id or state.session) then
    return root
  end
  local here = vim.fn.getcwd(-1, -1)
  return vim.fs.root(here, config.get().root_markers) or here
end

---What a command is answered when the server has gone.
local GONE = { message = 'the server ended before it answered' }

local function forget_process()
  local waiters = waiting or {}
  state.client_id, state.status, waiting, stopping, exit = nil, nil, nil, false, nil
  started, state.others = nil, {}
  for _, view in pairs(state.views) do
    view.live = {}
  end
  local callbacks = unanswered
  unanswered = {}
  for callback in pairs(callbacks) do
    calm.run(function()
      callback(GONE)
    end)
  end
  for _, waiter in ipairs(waiters) do
    waiter.failed(GONE)
  end
end

---Tell that the server has ended, and let those go on who wait for the next one.
local function take_end(code, signal)
  local asked = stopping or vim.v.exiting ~= vim.NIL or (code == 0 and signal == 0) -- it ends so when asked to
  forget_process()
  torn = torn or code ~= 0 or signal ~= 0
  if not asked then
    state.ended = signal ~= 0 and ('signal %d'):format(signal) or ('exit code %d'):format(code)
    message.error(('the server has ended (%s); :Dsh restart goes on with the session'):format(state.ended))
    feed.announce('DshExit', { code = code, signal = signal })
  end
  feed.emit('exit')
  local waiters = leaving or {}
  leaving = nil
  for _, waiter in ipairs(waiters) do
    M.with(waiter.ready, waiter.failed)
  end
end

local function on_exit(code, signal, client_id)
  if given_up[client_id] then
    return
  end
  if exit then
    code, signal = exit.code, exit.signal
  end
  leaving = leaving or {} -- a key may come before what is scheduled
  vim.schedule(function()
    if not given_up[client_id] then -- meanwhile
      take_end(code, signal)
    end
  end)
end

---The command that starts the server: what `vim.lsp.config` was given goes before `vim.g.dsh`.
---@return string[]? nil where a function does
function M.command()
  local given = vim.lsp.config[M.NAME].cmd
  if given == M.spawn then
    return config.get().cmd
  end
  return type(given) == 'table' and given or nil
end

---Start the server, and keep what Neovim would say of its end for ourselves.
function M.spawn(dispatchers)
  local tell = dispatchers.on_exit
  dispatchers.on_exit = function(code, signal)
    exit = { code = code, signal = signal }
    tell(0, 0)
  end
  return vim.lsp.rpc.start(M.command(), dispatchers)
end

---The configuration for `vim.lsp`, as `lsp/dsh_lsp.lua` gives it.
---@return vim.lsp.Config
function M.lsp_config()
  return {
    name = M.NAME,
    cmd = M.spawn,
    root_dir = function(_, on_dir)
      on_dir(M.root())
    end,
    reuse_client = function(client)
      return client.name == M.NAME and not client:is_stopped()
    end,
    capabilities = vim.tbl_deep_extend('force', vim.lsp.protocol.make_client_capabilities(), {
      experimental = { dsh = requests.CAPABILITIES },
    }),
    flags = { debounce_text_changes = 40 }, -- an edit lands in the tick after a change that the server was told of
    handlers = vim.tbl_extend('error', { ['$/progress'] = on_progress }, requests.HANDLERS),
    before_init = function(params, client_config)
      token = ('dsh-%d'):format(vim.uv.hrtime())
      local given = client_config.init_options or {}
      local options = vim.tbl_deep_extend('force', config.get().settings, given, { eventToken = token })
      params.initializationOptions = options
    end,
    on_init = function(client)
      state.client_id, state.ended = client.id, nil
      started, root = client.id, client.root_dir
      M.attach_all()
      require('dsh.language').watch()
      vim.schedule(function()
        M.resume(client)
      end)
    end,
    on_exit = on_exit,
  }
end

---Show the server the documents that Neovim holds.
function M.attach_all()
  for _, bufnr in ipairs(vim.api.nvim_list_bufs()) do
    M.attach(bufnr)
  end
end

---@param bufnr integer
function M.attach(bufnr)
  local id, buffers = state.client_id, require('dsh.buffers')
  if id and buffers.is_document(bufnr) and (vim.lsp.buf_is_attached(bufnr, id) or buffers.is_text(bufnr)) then
    vim.lsp.buf_attach_client(bufnr, id)
  end
end

---Go on with the session that was there before, then let those go on who wait for the server.
---@param client vim.lsp.Client
function M.resume(client)
  local function ready()
    local waiters = waiting or {}
    waiting = nil
    feed.emit('start')
    for _, waiter in ipairs(waiters) do
      waiter.ready(client)
    end
  end
  if not state.session then
    return ready()
  end
  local after = not torn and state.seqs[state.session] or -1
  if torn then
    feed.begin_anew()
  end
  torn, state.replaying = false, torn
  local argument = { session = state.session, after = after }
  M.send(client, protocol.COMMANDS.session_open, argument, function(failure)
    state.replaying, state.replayed = false, nil
    if failure then
      message.warn(('the session could not be opened again: %s'):format(failure.message))
      state.session = nil
      feed.emit('session')
    end
    ready()
  end)
end

---@return vim.lsp.Client? client that is ready
function M.get()
  local client = state.client_id and vim.lsp.get_client_by_id(state.client_id)
  return client and client.initialized and not client:is_stopped() and client or nil
end

local function nothing() end

---Give up a server that does not answer, and let those know who wait for it.
local function give_up(id)
  local client = vim.lsp.get_client_by_id(id)
  if started ~= id or not client or client.initialized then
    return
  end
  given_up[id] = true
  client:stop(true)
  message.error('the server does not answer; see :Dsh log, :Dsh restart tries again')
  forget_process()
end

---Start the server for those who wait; why it cannot be, if so.
---@return string?
local function start()
  local wanted, command = vim.deepcopy(vim.lsp.config[M.NAME]), M.command()
  if command and vim.fn.executable(command[1]) == 0 then
    return ('%s is not there; see :checkhealth dsh'):format(command[1])
  end
  local problem = config.problem_with_settings(wanted.init_options or {})
  if problem then
    return ('init_options: %s'):format(problem)
  end
  wanted.cmd = command and M.spawn or wanted.cmd
  wanted.root_dir = M.root()
  local options = { attach = false, reuse_client = wanted.reuse_client, silent = true }
  local done, id = pcall(vim.lsp.start, wanted, options) -- what the user has configured may raise an error
  if not done or not id then
    local reason = not done and ('the server could not be started: %s'):format(id)
    return reason or 'the server could not be started; see :checkhealth dsh'
  end
  started = id
  vim.defer_fn(function()
    give_up(id)
  end, START_MS)
end

---Call back with the server, which is started if it does not run.
---@param ready fun(client: vim.lsp.Client)
---@param failed fun(failure: { message: string })? it could not be started, which has been told
function M.with(ready, failed)
  local waiter = { ready = ready, failed = failed or nothing }
  local client = M.get()
  if leaving then
    table.insert(leaving, waiter)
  elseif waiting then
    table.insert(waiting, waiter)
  elseif client then
    ready(client)
  else
    waiting = { waiter }
    local problem = start()
    if problem then
      waiting = nil
      message.error(problem)
      waiter.failed(GONE)
    end
  end
end

---The client, ready or not.
local function running()
  return started and vim.lsp.get_client_by_id(started)
end

---End a server that does not end by itself, and wait no longer for one that does not even then.
local function insist(client)
  local function after(act)
    vim.defer_fn(function()
      if vim.lsp.get_client_by_id(client.id) then -- it has not ended
        act()
      end
    end, STOP_MS)
  end
  after(function()
    client.rpc.terminate() -- `client:stop(true)` does nothing after a `client:stop()`
    after(function()
      given_up[client.id] = true
      take_end(0, 9)
    end)
  end)
end

---Stop the server, which keeps what waits; the next command starts another one.
function M.stop()
  local client = running()
  if client and not stopping then
    stopping, leaving = true, leaving or {}
    client:stop()
    insist(client)
  end
end

---Start the server again, after it has stopped if it still runs; the session goes on.
function M.restart()
  M.stop()
  M.with(nothing)
end

-- Commands ------------------------------------------------------------------------------------------------------

local CHANGES_SESSION = {
  [protocol.COMMANDS.followup] = true,
  [protocol.COMMANDS.steer] = true,
  [protocol.COMMANDS.inject] = true,
  [protocol.COMMANDS.session_new] = true,
  [protocol.COMMANDS.session_open] = true,
  [protocol.COMMANDS.session_fork] = true,
}

---Tell the user of a command that failed.
---@param failure { message: string }
function M.tell(failure)
  if failure ~= GONE then -- the end of the server is told once
    message.warn(failure.message)
  end
end

---Send a command to a server that is ready.
---@param client vim.lsp.Client
---@param command string
---@param argument table?
---@param callback fun(failure: table?, result: table?)
function M.send(client, command, argument, callback)
  local known = vim.tbl_get(client.server_capabilities, 'executeCommandProvider', 'commands') or {}
  if not vim.list_contains(known, command) then
    return callback({ message = ('the server does not know %s: update dsh-lsp'):format(command) })
  end
  argument = argument and next(argument) and argument or vim.empty_dict()
  unanswered[callback] = true
  local function answered(failure, result)
    if unanswered[callback] then -- else its end was told
      unanswered[callback] = nil
      calm.run(function()
        callback(failure, result)
      end)
    end
  end
  local params = { command = command, arguments = { argument } }
  if not client:request('workspace/executeCommand', params, answered) then
    answered(GONE)
  end
end

---Run a command, starting the server if need be; a failure is told to the user unless `on_failure` takes it.
---@param command string
---@param argument table?
---@param callback fun(result: table)?
---@param on_failure fun(failure: table)?
function M.run(command, argument, callback, on_failure)
  local failed = on_failure or M.tell
  M.with(function(client)
    local opens = command == protocol.COMMANDS.session_open
    state.replaying = opens or state.replaying
    state.replayed = opens and not argument.after and argument.session or state.replayed
    M.send(client, command, argument, function(failure, result)
      if opens then
        state.replaying, state.replayed = false, nil
      end
      if failure then
        return failed(failure)
      end
      if CHANGES_SESSION[command] then
        feed.set_session(result.session or result.summary.session)
      end
      if callback then
        callback(result)
      end
    end)
  end, failed)
end

return M
