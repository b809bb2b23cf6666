---Choices: the mode and the model of a session, picked from lists.

local client = require('dsh.client')
local feed = require('dsh.feed')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

local SERVER = protocol.COMMANDS

M.MODES = { 'ask', 'auto-edit', 'plan', 'read-only' }
local MODE_HELP = {
  ask = 'edits are reviewed, commands approved',
  ['auto-edit'] = 'edits land at once, commands are approved',
  plan = 'nothing is changed; the aim is a plan',
  ['read-only'] = 'nothing is changed',
}

---@param call dsh.Call
function M.mode(call)
  local function set(name)
    client.run(SERVER.mode_set, { mode = name, session = feed.state.session })
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
  vim.ui.select(M.MODES, options, function(choice)
    if choice then
      set(choice)
    end
  end)
end

local wants_models = false

local COMPLETION_MS = 1000

---The same for completion, which waits a moment for a server that was not asked yet.
---@return string[]
function M.complete_models()
  if not feed.state.models and client.get() then
    client.run(SERVER.model_list)
    vim.wait(COMPLETION_MS, function()
      return feed.state.models ~= nil
    end, 20)
  end
  return M.model_names()
end

---The models that the server told of, each as `provider/name`.
---@return string[]
function M.model_names()
  local names = {}
  for _, one in ipairs((feed.state.models or {}).models or {}) do
    names[#names + 1] = ('%s/%s'):format(one.provider, one.name)
  end
  return names
end

local function set_model(name)
  local provider, model = name:match('^([^/]+)/(.+)$')
  local function set(of)
    client.run(SERVER.model_set, { provider = of, name = model or name, session = feed.state.session })
  end
  provider = provider or ((feed.state.status or {}).model or {}).provider or feed.view().provider
  if provider then
    return set(provider)
  end
  client.run(SERVER.status, nil, function(status) -- nothing was told yet
    set(status.model.provider)
  end)
end

local function pick_model()
  local names = M.model_names()
  if #names == 0 then
    local failed = (feed.state.models.failed or {})[1]
    local why = failed and failed.message or 'no provider names any'
    return message.warn(('no list of models: %s; :Dsh model PROVIDER/NAME sets one'):format(why))
  end
  vim.ui.select(names, { prompt = 'Model', kind = 'dsh.model' }, function(choice)
    if choice then
      set_model(choice)
    end
  end)
end

---@param call dsh.Call
function M.model(call)
  if call.words ~= '' then
    return set_model(call.words)
  end
  wants_models = true
  client.run(SERVER.model_list)
end

local function tell_compaction(data)
  if data.ok then
    message.info(('the history takes %d tokens now, before it took %d'):format(data.after, data.before))
  else
    message.warn(('the history is as it was: %s'):format(data.message or data.code or 'nothing could be left out'))
  end
end

feed.on('event', function(value)
  if value.type == 'model/list' and wants_models then
    wants_models = false
    pick_model()
  elseif value.type == 'compact/done' then
    tell_compaction(value.data)
  end
end)

return M
