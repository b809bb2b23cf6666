---Protocol: the `dsh` names on the wire, as the server has them; a test holds the two equal.

local M = {}

M.VERSION = 1

M.STATUS = 'dsh/status'
M.REVIEW = 'dsh/review'
M.APPROVE = 'dsh/approve'
M.ASK = 'dsh/ask'
M.SAVE = 'dsh/save'
M.DIAGNOSTICS = 'dsh/diagnostics'
M.NAVIGATE = 'dsh/navigate'

---@enum dsh.Command
M.COMMANDS = {
  followup = 'dsh.followup',
  steer = 'dsh.steer',
  inject = 'dsh.inject',
  cancel = 'dsh.cancel',
  retry = 'dsh.retry',
  inbox_list = 'dsh.inbox.list',
  inbox_edit = 'dsh.inbox.edit',
  inbox_remove = 'dsh.inbox.remove',
  inbox_resume = 'dsh.inbox.resume',
  status = 'dsh.status',
  session_new = 'dsh.session.new',
  session_open = 'dsh.session.open',
  session_list = 'dsh.session.list',
  session_fork = 'dsh.session.fork',
  session_rename = 'dsh.session.rename',
  session_delete = 'dsh.session.delete',
  session_export = 'dsh.session.export',
  mode_set = 'dsh.mode.set',
  model_set = 'dsh.model.set',
  model_list = 'dsh.model.list',
  approve = 'dsh.approve',
  answer = 'dsh.answer',
  review_list = 'dsh.review.list',
  review_accept = 'dsh.review.accept',
  review_reject = 'dsh.review.reject',
  rewind = 'dsh.rewind',
  compact = 'dsh.compact',
  text = 'dsh.text',
  plugins_reload = 'dsh.plugins.reload',
}

return M
