---Code: the colours of the code in a text's fences, worked out once when the text is whole.
---
---Rules: what is too long or in a language without a parser stays plain; the conversation itself has no parser, since
---one must walk over all of it at every change.

local M = {}

local MAX_BYTES = 20000

local function language_of(info)
  local name = info:match('^%s*([%w_+#-]+)')
  local language = name and (vim.treesitter.language.get_lang(name:lower()) or name:lower())
  return language and vim.treesitter.language.add(language) and language or nil
end

---The captures of a piece of code: row, first column, last row, last column, group.
local function captures(code, language)
  local found = {}
  local parser = vim.treesitter.get_string_parser(code, language)
  local query = vim.treesitter.query.get(language, 'highlights')
  if not query then
    return found
  end
  for id, node in query:iter_captures(parser:parse()[1]:root(), code) do
    local row, column, last_row, last_column = node:range()
    local name = query.captures[id]
    if not vim.startswith(name, '_') and name ~= 'spell' and name ~= 'nospell' then
      found[#found + 1] = { row, column, last_row, last_column, ('@%s.%s'):format(name, language) }
    end
  end
  return found
end

---The fences of some lines that can be coloured: their first row and their last, from 1, and their language.
---@param lines string[]
---@return { first: integer, last: integer, language: string }[]
function M.fences(lines)
  local fences, row = {}, 1
  while row <= #lines do
    local fence, info = lines[row]:match('^%s*(```+)(.*)$')
    if fence then
      local first = row + 1
      repeat
        row = row + 1
      until row > #lines or lines[row]:match('^%s*' .. fence .. '%s*$')
      local language = row > first and language_of(info)
      if language then
        fences[#fences + 1] = { first = first, last = row - 1, language = language }
      end
    end
    row = row + 1
  end
  return fences
end

---The colours of one fence: first row, first column, last row, last column, from 0 in the lines, and the group.
---@param lines string[]
---@param fence { first: integer, last: integer, language: string }
---@return { [1]: integer, [2]: integer, [3]: integer, [4]: integer, [5]: string }[]
function M.looks(lines, fence)
  local text = table.concat(lines, '\n', fence.first, fence.last)
  local parsed, found = false, {}
  if #text <= MAX_BYTES then
    parsed, found = pcall(captures, text, fence.language)
  end
  if not parsed then
    return {}
  end
  for _, look in ipairs(found) do
    look[1], look[3] = look[1] + fence.first - 1, look[3] + fence.first - 1
  end
  return found
end

return M
