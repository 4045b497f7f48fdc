-- JSON as it is written: where the members of an object stand, and the text of theirs.
-- Decoding would lose how a number is written, and which of two members of one name came
-- last. What is JSON here is what encoding/json takes for it.

local text = require "weir.text"

local M = {}

local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local concat, tonumber = table.concat, tonumber
local encode, repair = text.encode, text.repair

-- deepest is how deep values may stand in one another.
local deepest = 10000

-- blank is the place of the first byte from i on that is no white space.
local function blank(s, i) return find(s, "[^ \t\r\n]", i) or #s + 1 end

-- string_end is the place after the string that begins at i, or nil if it is none.
local function string_end(s, i)
  i = i + 1
  while true do
    i = find(s, '["\\%z\1-\31]', i)
    if not i then return nil end
    local c = byte(s, i)
    if c == 34 then return i + 1 end
    if c ~= 92 then return nil end
    if find(s, '^["\\/bfnrt]', i + 1) then
      i = i + 2
    elseif find(s, "^u%x%x%x%x", i + 1) then
      i = i + 6
    else
      return nil
    end
  end
end

-- scalar_end is the place after the number or word that begins at i, or nil.
local function scalar_end(s, i)
  local c = byte(s, i)
  if c == 116 then return sub(s, i, i + 3) == "true" and i + 4 or nil end
  if c == 102 then return sub(s, i, i + 4) == "false" and i + 5 or nil end
  if c == 110 then return sub(s, i, i + 3) == "null" and i + 4 or nil end
  local to = match(s, "^%-?0()", i) or match(s, "^%-?[1-9]%d*()", i)
  if not to then return nil end
  if byte(s, to) == 46 then
    to = match(s, "^%.%d+()", to)
    if not to then return nil end
  end
  if find(s, "^[eE]", to) then to = match(s, "^[eE][+-]?%d+()", to) end
  return to
end

-- value_end is the place after the value that begins at i, or nil if it is none.
local function value_end(s, i)
  local stack, depth = {}, 0 -- the byte that ends each value that is open
  while true do
    -- A value begins at i.
    local c = byte(s, i)
    local to
    if c == 123 or c == 91 then
      if depth == deepest then return nil end
      local close = c + 2
      i = blank(s, i + 1)
      if byte(s, i) == close then
        to = i + 1
      else
        depth = depth + 1
        stack[depth] = close
      end
    elseif c == 34 then
      to = string_end(s, i)
      if not to then return nil end
    else
      to = scalar_end(s, i)
      if not to then return nil end
    end
    if to then
      -- One has ended: so may those around it, or another begins.
      while true do
        if depth == 0 then return to end
        i = blank(s, to)
        c = byte(s, i)
        if c == stack[depth] then
          depth, to = depth - 1, i + 1
        elseif c == 44 then
          i = blank(s, i + 1)
          break
        else
          return nil
        end
      end
    end
    if stack[depth] == 125 then -- the name of a member is next
      if byte(s, i) ~= 34 then return nil end
      i = string_end(s, i)
      i = i and blank(s, i)
      if not i or byte(s, i) ~= 58 then return nil end
      i = blank(s, i + 1)
    end
  end
end

local short = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

-- unquote is what a string says. Half of a surrogate pair is U+FFFD, and so is a byte
-- that belongs to no character.
local function unquote(quoted)
  local s = sub(quoted, 2, -2)
  if not find(s, "\\", 1, true) then return repair(s) end
  local out, n, from = {}, 0, 1
  while true do
    local at = find(s, "\\", from, true)
    n = n + 1
    out[n] = repair(sub(s, from, (at or 0) - 1))
    if not at then return concat(out) end
    n = n + 1
    local c = sub(s, at + 1, at + 1)
    from = at + 2
    if c == "u" then
      local r = tonumber(sub(s, from, from + 3), 16)
      from = from + 4
      if r >= 0xD800 and r < 0xDC00 then
        local low = match(s, "^\\u(%x%x%x%x)", from)
        low = low and tonumber(low, 16)
        if low and low >= 0xDC00 and low < 0xE000 then
          r = 0x10000 + (r - 0xD800) * 1024 + low - 0xDC00
          from = from + 6
        end
      end
      out[n] = encode(r)
    else
      out[n] = short[c] or c
    end
  end
end
M.unquote = unquote

-- object is s without white space around it if it is an object, or nil. It need be
-- asked once: what an object of JSON holds is JSON.
function M.object(s)
  local i = blank(s, 1)
  if byte(s, i) ~= 123 then return nil end
  local to = value_end(s, i)
  if not to or blank(s, to) <= #s then return nil end
  return sub(s, i, to - 1)
end

-- member is the text of the last member of that name in an object, or nil.
function M.member(object, name)
  local i, found = blank(object, 2), nil
  while byte(object, i) == 34 do
    local to = string_end(object, i)
    local same = unquote(sub(object, i, to - 1)) == name
    i = blank(object, blank(object, to) + 1)
    to = value_end(object, i)
    if same then found = sub(object, i, to - 1) end
    i = blank(object, to)
    if byte(object, i) == 44 then i = blank(object, i + 1) end
  end
  return found
end

return M
