---Colors: highlight groups that follow the colour scheme; each can be set by the user.

local M = {}

local LINKS = {
  DshMuted = 'Comment',
  DshThinking = 'Comment',
  DshTitle = 'Title',
  DshUser = 'Normal',
  DshBar = 'Function',
  DshTool = 'Normal',
  DshLink = 'Directory',
  DshRunning = 'DiagnosticInfo',
  DshWaiting = 'DiagnosticWarn',
  DshDone = 'DiagnosticOk',
  DshFailed = 'DiagnosticError',
  DshBorder = 'FloatBorder',
  DshAdded = 'Added',
  DshRemoved = 'Removed',
  DshLanded = 'DiffChange',
  DshReviewOld = 'DiffDelete',
  DshReviewNew = 'DiffAdd',
  DshReviewOldText = 'DiffText',
  DshReviewNewText = 'DiffText',
}

function M.define()
  for group, link in pairs(LINKS) do
    vim.api.nvim_set_hl(0, group, { link = link, default = true })
  end
end

return M
