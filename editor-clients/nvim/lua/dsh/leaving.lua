---Leaving: hunks that nobody is asked about any more, until it is known what became of them.
---
---Rules: what is not listed is not settled: an accepted hunk has yet to land, an accepted file has yet to be made,
---and what the editor would not apply waits again.

local client = require('dsh.client')
local feed = require('dsh.feed')
local views = require('dsh.view')

local M = {}

local LOOK_MS = 500

local leaving = {} ---@type table<string, dsh.Waiting> by hunk id
local looking = false

---Whether nobody knows yet; nobody waits for a server that is gone, or for another session's.
local function is_on_its_way(one)
  local review = client.get()
    and views.find(feed.view(), 'review', function(item)
      return item.proposal == one.proposal
    end)
  return review
    and vim.iter(views.hunks(review)):any(function(hunk)
      return hunk.id == one.hunk.id and not hunk.outcome
    end)
end

---@param one dsh.Waiting
function M.add(one)
  leaving[one.hunk.id] = one
end

---Those of which it is known now, but for those that wait again.
---@param waits table<string, true> by hunk id
---@return dsh.Waiting[]
function M.over(waits)
  local over = {}
  for id, one in pairs(leaving) do
    if waits[id] or not is_on_its_way(one) then
      leaving[id] = nil
      over[#over + 1] = not waits[id] and one or nil
    end
  end
  return over
end

---Call back in a moment if there are any: nobody tells of one that waits again.
---@param callback fun()
function M.look_again(callback)
  if next(leaving) and not looking then
    looking = true
    vim.defer_fn(function()
      looking = false
      callback()
    end, LOOK_MS)
  end
end

return M
