---Config: `vim.g.dsh`, read against one table that also makes the checks, the help and the completion.
---
---Rules: a wrong value is told with its path and keeps its default; an unknown key is told with the nearest name;
---nothing else stops working because of either.

local M = {}

---@class dsh.Option
---@field path string dotted
---@field default any
---@field check fun(value: any): string? what is wrong, nil if nothing is
---@field help string

local function is(kind)
  return function(value)
    if type(value) ~= kind then
      return ('a %s is wanted, not %s'):format(kind, vim.inspect(value))
    end
  end
end

local function one_of(...)
  local choices = { ... }
  return function(value)
    if not vim.list_contains(choices, value) then
      return ('one of %s is wanted, not %s'):format(table.concat(choices, ', '), vim.inspect(value))
    end
  end
end

local function between(low, high)
  return function(value)
    if type(value) ~= 'number' or value < low or value > high then
      return ('a number from %s to %s is wanted, not %s'):format(low, high, vim.inspect(value))
    end
  end
end

local function lines(low, high)
  return function(value)
    if type(value) ~= 'number' or value ~= math.floor(value) or value < low or value > high then
      return ('a whole number from %d to %d is wanted, not %s'):format(low, high, vim.inspect(value))
    end
  end
end

local function is_words(value)
  local good = vim.islist(value) and #value > 0
  for _, word in ipairs(good and value or {}) do
    good = good and type(word) == 'string'
  end
  return not good and ('a list of strings is wanted, not ' .. vim.inspect(value)) or nil
end

---Why settings are none for the server; nil when they are.
---@param value any
---@return string?
function M.problem_with_settings(value)
  local wrong = is('table')(value)
  local can_be_sent, reason = pcall(vim.json.encode, value)
  return wrong or not can_be_sent and ('the server cannot be sent this: ' .. reason) or nil
end

local function is_key(value)
  if value ~= false and (type(value) ~= 'string' or value == '') then
    return 'a key, or false for none, is wanted, not ' .. vim.inspect(value)
  end
end

---@type dsh.Option[]
M.OPTIONS = {
  { path = 'cmd', default = { 'dsh-lsp', 'serve' }, check = is_words, help = 'how the server is started' },
  { path = 'root_markers', default = { '.git' }, check = is_words, help = 'what the root of a workspace holds' },
  {
    path = 'settings',
    default = {},
    check = M.problem_with_settings,
    help = "the server's settings, see |dsh-settings|",
  },
  {
    path = 'chat.position',
    default = 'right',
    check = one_of('right', 'left', 'bottom', 'top'),
    help = 'where the conversation opens',
  },
  {
    path = 'chat.size',
    default = 0.4,
    check = between(0.1, 0.9),
    help = 'its part of the screen, 48 columns at least',
  },
  { path = 'chat.input_height', default = 4, check = lines(1, 40), help = 'lines of the input area' },
  { path = 'float', default = true, check = is('boolean'), help = 'say in a corner what waits for you' },
  { path = 'keys.next_hunk', default = ']h', check = is_key, help = 'go to the next proposed hunk' },
  { path = 'keys.previous_hunk', default = '[h', check = is_key, help = 'go to the one before' },
  { path = 'keys.accept', default = 'gha', check = is_key, help = 'accept the hunk under the cursor' },
  { path = 'keys.reject', default = 'ghr', check = is_key, help = 'reject it' },
  { path = 'keys.comment', default = 'ghc', check = is_key, help = 'reject it and say why' },
  { path = 'keys.edit', default = 'ghe', check = is_key, help = 'change it before you accept it' },
  { path = 'keys.accept_file', default = 'ghA', check = is_key, help = 'accept all hunks of the buffer' },
  { path = 'keys.reject_file', default = 'ghR', check = is_key, help = 'reject all hunks of the buffer' },
  { path = 'keys.allow', default = 'ghy', check = is_key, help = 'allow what asks for permission, once' },
  { path = 'keys.allow_session', default = 'ghs', check = is_key, help = 'allow it and its like for this session' },
  {
    path = 'keys.save_and_allow',
    default = 'ghw',
    check = is_key,
    help = 'save what a command would not see; allow it',
  },
  { path = 'keys.deny', default = 'ghn', check = is_key, help = 'refuse it and, if you like, say why' },
  { path = 'keys.answer', default = 'gho', check = is_key, help = 'answer a question, or choose a decision' },
  { path = 'keys.send', default = '<CR>', check = is_key, help = 'in the input area: send' },
  { path = 'keys.newline', default = '<C-j>', check = is_key, help = 'in the input area: begin a line' },
  { path = 'keys.steer', default = '<C-s>', check = is_key, help = 'in the input area: steer the running turn' },
  -- not <C-c>: pressed while Neovim draws, it interrupts that and never reaches a map
  { path = 'keys.cancel', default = '<C-q>', check = is_key, help = 'in the chat: cancel the running turn' },
  { path = 'keys.restart', default = 'R', check = is_key, help = 'in the chat: start the server that ended' },
}

local read ---@type { source: any, values: table, problems: string[] }?

---The name that comes nearest to a mistyped one.
local function nearest(name)
  local best, least = nil, 4
  for _, option in ipairs(M.OPTIONS) do
    local shared = 0
    while shared < #name and name:sub(shared + 1, shared + 1) == option.path:sub(shared + 1, shared + 1) do
      shared = shared + 1
    end
    local distance = math.max(#name, #option.path) - shared
    if distance < least or (shared >= 3 and not best) then
      best, least = option.path, math.min(least, distance)
    end
  end
  return best
end

local function dig(values, path)
  for key in vim.gsplit(path, '.', { plain = true }) do
    if type(values) ~= 'table' then
      return nil
    end
    values = values[key]
  end
  return values
end

local function put(values, path, value)
  local keys = vim.split(path, '.', { plain = true })
  for i = 1, #keys - 1 do
    values[keys[i]] = values[keys[i]] or {}
    values = values[keys[i]]
  end
  values[keys[#keys]] = value
end

local function unknown(given, known, prefix, problems)
  for key, value in pairs(given) do
    local path = prefix .. tostring(key)
    local group, name = tostring(key):match('^(%w+)%.(.+)$')
    if known[path] and group then
      problems[#problems + 1] = ('%s: write it as %s = { %s = … }'):format(path, group, name)
    elseif known[path] == 'group' and type(value) == 'table' then
      unknown(value, known, path .. '.', problems)
    elseif known[path] == 'group' then
      problems[#problems + 1] = ('%s: a table is wanted, not %s'):format(path, vim.inspect(value))
    elseif not known[path] then
      local like = nearest(path)
      problems[#problems + 1] = ('%s is not an option%s'):format(path, like and (', is it %s?'):format(like) or '')
    end
  end
end

---Read options as a user gave them.
---@param given any
---@return table values, string[] problems
function M.read(given)
  local values, problems, known = {}, {}, {}
  if given ~= nil and type(given) ~= 'table' then
    problems[1], given = 'vim.g.dsh: a table is wanted, not ' .. vim.inspect(given), nil
  end
  for _, option in ipairs(M.OPTIONS) do
    known[option.path] = 'option'
    local group = option.path:match('^(%w+)%.')
    known[group or option.path] = group and 'group' or 'option'
    local value = dig(given, option.path)
    local wrong = value ~= nil and option.check(value)
    if wrong then
      problems[#problems + 1] = ('%s: %s'):format(option.path, wrong)
    end
    put(values, option.path, (value == nil or wrong) and vim.deepcopy(option.default) or value)
  end
  unknown(given or {}, known, '', problems)
  table.sort(problems)
  return values, problems
end

---The options in force; those of `vim.g.dsh`, read again when it has changed.
---@return table
function M.get()
  local source = vim.g.dsh
  if not read or not vim.deep_equal(read.source, source) then
    local values, problems = M.read(source)
    read = { source = source, values = values, problems = problems }
    if #problems > 0 then
      vim.schedule(function()
        local problem = problems[1]:gsub('^vim%.g%.dsh', ''):gsub('^%w', '.%0')
        require('dsh.message').warn(('vim.g.dsh%s (:checkhealth dsh)'):format(problem))
      end)
    end
  end
  return read.values
end

---What is wrong with the options in force.
---@return string[]
function M.problems()
  M.get()
  return read.problems
end

return M
