---Health: `:checkhealth dsh`.

local config = require('dsh.config')

local M = {}

local OLDEST = '0.11'

local function check_neovim()
  vim.health.start('Neovim')
  if vim.fn.has('nvim-' .. OLDEST) == 1 then
    vim.health.ok(tostring(vim.version()))
  else
    vim.health.error(('Neovim %s or newer is needed'):format(OLDEST))
  end
end

local function check_options()
  vim.health.start('Options (vim.g.dsh)')
  local problems = config.problems()
  for _, problem in ipairs(problems) do
    vim.health.error(problem, { 'See :help dsh-options.' })
  end
  if #problems == 0 then
    vim.health.ok(vim.g.dsh == nil and 'the defaults are used' or 'all options are known and right')
  end
end

local function check_server()
  vim.health.start('Server')
  local command = require('dsh.client').command()
  if not command then
    return vim.health.ok('a function of your own starts it')
  end
  if vim.fn.executable(command[1]) == 0 then
    local advice = { ':help dsh-installation', 'or name it: vim.g.dsh = { cmd = { "/path/to/dsh-lsp", "serve" } }' }
    return vim.health.error(('%s is not an executable'):format(command[1]), advice)
  end
  local program = vim.list_slice(command, 1, command[#command] == 'serve' and #command - 1 or #command)
  local version = vim.list_extend(program, { '--version' })
  local done = vim.system(version, { text = true, timeout = 10000 }):wait()
  if done.code == 0 then
    vim.health.ok(vim.trim(done.stdout))
  else
    vim.health.error(('%s failed'):format(table.concat(version, ' ')), vim.split(vim.trim(done.stderr or ''), '\n'))
  end
end

---The variables that providers read their keys from.
local KEYS = { deepseek = 'DEEPSEEK_API_KEY', anthropic = 'ANTHROPIC_API_KEY' }

local function check_key()
  local model = config.get().settings.model
  if model ~= nil and type(model) ~= 'table' then
    return vim.health.error('settings.model: a table is wanted, not ' .. vim.inspect(model))
  end
  model = model or {}
  if model.provider == 'demo' then
    return vim.health.ok('the demo needs no key')
  end
  local name = model.apiKeyEnv or KEYS[model.provider or 'deepseek']
  if not name then
    vim.health.info(('where the key for %s comes from, `dsh-lsp doctor` says'):format(tostring(model.provider)))
  elseif vim.env[name] and vim.env[name] ~= '' then
    vim.health.ok(('the key is in %s'):format(name))
  else
    vim.health.warn(('%s is not set'):format(name), { 'Set it in the environment that starts Neovim.' })
  end
end

local function check_session()
  vim.health.start('Session')
  local client = require('dsh.client')
  local feed = require('dsh.feed')
  local server = client.get()
  if not server then
    local ended = feed.state.ended
    return ended and vim.health.warn(('the server has ended (%s)'):format(ended), { ':Dsh restart', ':Dsh log' })
      or vim.health.info('the server does not run; the first :Dsh ask starts it')
  end
  vim.health.ok(('the server runs in %s'):format(server.root_dir or client.root()))
  vim.health.info(('%d documents are shown to it'):format(vim.tbl_count(server.attached_buffers)))
  local encodings = {}
  for _, other in ipairs(vim.lsp.get_clients()) do
    encodings[other.name] = other.offset_encoding
  end
  vim.health.info('position encodings: ' .. vim.inspect(encodings, { newline = ' ', indent = '' }))
end

function M.check()
  check_neovim()
  check_options()
  check_server()
  check_key()
  check_session()
end

return M
