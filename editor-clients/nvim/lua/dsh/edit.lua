---Edit: applies what the server asks for with `workspace/applyEdit`, wholly and as it was meant, or not at all.
---
---Rules: everything is checked before anything is changed; an edit for another version than the buffer's is refused,
---since a key has come between; an edit that asks for a confirmation is refused, since reviews confirm; no file is
---truncated, overwritten, or saved on the way; the answer says what the buffer shows.

local buffers = require('dsh.buffers')

local M = {}

---Why a text edit cannot be applied; nil when it can.
local function problem_with_text(change)
  local document = change.textDocument
  local path = vim.uri_to_fname(document.uri)
  local bufnr = buffers.of(document.uri)
  if document.version and document.version ~= vim.NIL then
    if not bufnr then
      return ('%s is not open'):format(path)
    end
    local version = vim.lsp.util.buf_versions[bufnr]
    if version ~= document.version then
      return ('%s is at version %s, the edit is for %s'):format(path, version, document.version)
    end
  elseif bufnr then
    return ('%s is open, and the edit names no version'):format(path)
  elseif not vim.uv.fs_stat(path) then
    return ('%s does not exist'):format(path)
  end
  if bufnr and not vim.bo[bufnr].modifiable then
    return ('%s is not modifiable'):format(path)
  end
end

local function before(a, b)
  return a.line < b.line or (a.line == b.line and a.character < b.character)
end

---Why the ranges of a text edit make no sense together; nil when they do.
local function problem_with_ranges(edits)
  local sorted = vim.deepcopy(edits)
  table.sort(sorted, function(a, b)
    return before(a.range.start, b.range.start)
  end)
  for i, edit in ipairs(sorted) do
    if edit.annotationId and edit.annotationId ~= vim.NIL then
      return 'edits that ask for a confirmation are reviewed here, not applied'
    end
    if before(edit.range['end'], edit.range.start) then
      return 'a range ends before it begins'
    end
    if i > 1 and before(edit.range.start, sorted[i - 1].range['end']) then
      return 'ranges overlap'
    end
  end
end

local function is_modified(uri)
  local bufnr = buffers.of(uri)
  return bufnr ~= nil and vim.bo[bufnr].modified
end

---Why a file operation cannot be done; nil when it can.
local function problem_with_file(change)
  local options = change.options or {}
  if change.kind == 'create' then
    local path = vim.uri_to_fname(change.uri)
    if vim.uv.fs_lstat(path) and not options.ignoreIfExists then
      return ('%s exists, and no file is overwritten'):format(path)
    end
  elseif change.kind == 'rename' then
    local from, to = vim.uri_to_fname(change.oldUri), vim.uri_to_fname(change.newUri)
    if not vim.uv.fs_lstat(from) then
      return ('%s does not exist'):format(from)
    elseif vim.uv.fs_lstat(to) then
      return ('%s exists, and no file is overwritten'):format(to)
    elseif is_modified(change.oldUri) then -- Neovim would save it
      return ('%s has unsaved text'):format(from)
    end
  elseif change.kind == 'delete' then
    local path = vim.uri_to_fname(change.uri)
    if not vim.uv.fs_lstat(path) and not options.ignoreIfNotExists then
      return ('%s does not exist'):format(path)
    elseif is_modified(change.uri) then
      return ('%s has unsaved text'):format(path)
    end
  else
    return ('%s is not an operation'):format(tostring(change.kind))
  end
end

---Why a workspace edit cannot be applied as a whole, and which of its changes is to blame, from 0.
---@param edit table WorkspaceEdit
---@return string?, integer?
function M.problem(edit)
  if edit.changes and next(edit.changes) then
    return 'edits without a version are not applied', 0
  end
  for _, annotation in pairs(edit.changeAnnotations or {}) do
    if annotation.needsConfirmation then
      return 'edits that ask for a confirmation are reviewed here, not applied', 0
    end
  end
  local seen = {}
  for i, change in ipairs(edit.documentChanges or {}) do
    local problem
    if change.kind then
      problem = problem_with_file(change)
    else
      local uri = change.textDocument.uri
      problem = seen[uri] and 'a document is edited twice'
        or problem_with_text(change)
        or problem_with_ranges(change.edits)
      seen[uri] = true
    end
    if problem then
      return problem, i - 1
    end
  end
end

---Let what comes be a step of undo of its own, in the middle of an insertion too.
local function break_undo(bufnr)
  vim.bo[bufnr].undolevels = vim.bo[bufnr].undolevels -- setting it is what breaks; the value stays
end

local function apply_text(change, encoding)
  local bufnr = buffers.load(change.textDocument.uri)
  local tick, listed = vim.api.nvim_buf_get_changedtick(bufnr), vim.bo[bufnr].buflisted
  break_undo(bufnr)
  vim.lsp.util.apply_text_edits(change.edits, bufnr, encoding)
  break_undo(bufnr)
  vim.bo[bufnr].buflisted = listed
  if #change.edits > 0 and vim.api.nvim_buf_get_changedtick(bufnr) == tick then
    error('the buffer did not change', 0)
  end
end

local function apply_file(change)
  if change.kind == 'create' then
    local path = vim.uri_to_fname(change.uri)
    vim.fn.mkdir(vim.fs.dirname(path), 'p')
    local file, reason = vim.uv.fs_open(path, 'wx', 420) -- 0644; exclusively, should it have appeared meanwhile
    if file then
      vim.uv.fs_close(file)
    elseif not (change.options or {}).ignoreIfExists then
      error(reason, 0)
    end
  elseif change.kind == 'rename' then
    vim.lsp.util.rename(vim.uri_to_fname(change.oldUri), vim.uri_to_fname(change.newUri))
  else
    local path = vim.uri_to_fname(change.uri)
    local done, reason = os.remove(path)
    if not done and vim.uv.fs_lstat(path) then
      error(reason, 0)
    end
  end
end

---Answer `workspace/applyEdit`.
---@param params table ApplyWorkspaceEditParams
---@param encoding string position encoding of the server
---@return table ApplyWorkspaceEditResult
function M.apply(params, encoding)
  local problem, index = M.problem(params.edit)
  if problem then
    return { applied = false, failureReason = problem, failedChange = index }
  end
  for i, change in ipairs(params.edit.documentChanges or {}) do
    local done, reason = pcall(change.kind and apply_file or apply_text, change, encoding)
    if not done then
      return { applied = false, failureReason = tostring(reason), failedChange = i - 1 }
    end
  end
  return { applied = true }
end

return M
