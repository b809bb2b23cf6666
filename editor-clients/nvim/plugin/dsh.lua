if vim.g.loaded_dsh then
  return
end
vim.g.loaded_dsh = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.api.nvim_create_user_command('Dsh', function()
    vim.api.nvim_echo({ { 'dsh needs Neovim 0.11 or newer', 'ErrorMsg' } }, true, {})
  end, { nargs = '*', range = true })
  return
end

vim.api.nvim_create_user_command('Dsh', function(call)
  require('dsh.commands').run(call)
end, {
  nargs = '*',
  range = true,
  bang = true,
  desc = 'Ask, steer and review the agent',
  complete = function(...)
    return require('dsh.commands').complete(...)
  end,
})

local function highlight()
  require('dsh.colors').define()
end

local group = vim.api.nvim_create_augroup('dsh', {})
vim.api.nvim_create_autocmd('ColorScheme', { group = group, callback = highlight })
highlight()

-- A document that is opened while the server runs is shown to it, whatever its type.
vim.api.nvim_create_autocmd({ 'BufReadPost', 'BufNewFile', 'BufFilePost', 'BufWritePost' }, {
  group = group,
  callback = function(event)
    if package.loaded['dsh.client'] then
      require('dsh.client').attach(event.buf)
    end
  end,
})

vim.api.nvim_create_autocmd('BufReadCmd', {
  group = group,
  pattern = { 'dsh:/session/*', 'dsh:/proposal/*' },
  callback = function(event)
    require('dsh.virtual').read(event.buf, event.match)
  end,
})

for name, row in pairs({
  chat = { 'n', 'chat' },
  ask = { { 'n', 'x' }, 'ask' },
  steer = { 'n', 'steer' },
  cancel = { 'n', 'cancel' },
  queue = { 'n', 'queue' },
  review = { 'n', 'review' },
  sessions = { 'n', 'sessions' },
  restart = { 'n', 'restart' },
  allow = { 'n', 'allow' },
  ['allow-session'] = { 'n', 'allow session' },
  deny = { 'n', 'deny' },
  answer = { 'n', 'answer' },
  accept = { 'n', 'accept' },
  reject = { 'n', 'reject' },
  edit = { 'n', 'edit' },
  ['next-hunk'] = { 'n', 'next' },
  ['previous-hunk'] = { 'n', 'previous' },
}) do
  vim.keymap.set(row[1], ('<Plug>(dsh-%s)'):format(name), (':Dsh %s<CR>'):format(row[2]), {
    silent = true,
    desc = 'dsh: ' .. name,
  })
end
