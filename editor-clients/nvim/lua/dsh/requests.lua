---Requests: what the server asks of the editor, what it tells, and who answers.

local feed = require('dsh.feed')
local message = require('dsh.message')
local protocol = require('dsh.protocol')

local M = {}

M.CAPABILITIES = {
  version = protocol.VERSION,
  review = true,
  approve = true,
  ask = true,
  diagnostics = true,
  navigate = true,
  save = true,
}

local function on_message(_, params)
  local level = params.type
  local say = level == 1 and message.error or level == 2 and message.warn or message.info
  say((params.message:gsub('^DSH:? ', '')))
end

local function shown(name)
  return function(_, params)
    feed.emit(name, params)
    return { shown = true }
  end
end

local function encoding_of(context)
  local client = vim.lsp.get_client_by_id(context.client_id)
  return client and client.offset_encoding or 'utf-16'
end

M.HANDLERS = {
  ['window/showMessage'] = on_message,
  ['workspace/applyEdit'] = function(_, params, context)
    return require('dsh.edit').apply(params, encoding_of(context))
  end,
  [protocol.STATUS] = function(_, params)
    feed.take_status(params)
  end,
  [protocol.REVIEW] = shown('review'),
  [protocol.APPROVE] = shown('approve'),
  [protocol.ASK] = shown('ask'),
  [protocol.SAVE] = function(_, params)
    return require('dsh.save').save(params)
  end,
  [protocol.DIAGNOSTICS] = function(_, params)
    return require('dsh.language').diagnostics(params)
  end,
  [protocol.NAVIGATE] = function(_, params)
    return require('dsh.language').navigate(params)
  end,
}

return M
