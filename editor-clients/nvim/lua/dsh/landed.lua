---Landed: edits that landed without having been asked for, marked until the next turn: until then they can be undone.

local buffers = require('dsh.buffers')
local feed = require('dsh.feed')
local marks = require('dsh.marks')
local views = require('dsh.view')

local M = {}

local landed = {} ---@type table<string, dsh.Waiting> by hunk id

---@return dsh.Waiting[]
function M.all()
  return vim.tbl_values(landed)
end

local function takes_back(review, id)
  return vim.iter(views.hunks(review)):any(function(hunk)
    return hunk.id == id and hunk.undoes ~= nil
  end)
end

---Mark one that landed, if nobody had been asked.
---@param data table of the event
---@param review dsh.Item
function M.note(data, review)
  local asked = feed.view().mode ~= 'auto-edit'
  local bufnr = not asked and data.kind == 'edit' and buffers.of(data.uri) or nil
  if not bufnr or landed[data.hunk] or takes_back(review, data.hunk) then
    return
  end
  local one = { uri = data.uri, kind = 'landed', proposal = data.proposal, bufnr = bufnr }
  one.hunk = { id = data.hunk, oldText = data.before, newText = data.after, range = data.range }
  one.mark = marks.show_landed(bufnr, data.range.start.line, data.after)
  landed[data.hunk] = one
end

---Forget those that a review takes back.
---@param data table of the event
function M.note_undone(data)
  for _, file in ipairs(data.files) do
    for _, hunk in ipairs(file.hunks) do
      if hunk.undoes then
        M.forget(hunk.undoes)
      end
    end
  end
end

---@param id string? one of them; all if it is left out
function M.forget(id)
  for found, one in pairs(landed) do
    if id == nil or id == found then
      landed[found] = nil
      marks.clear(one.mark)
    end
  end
end

return M
