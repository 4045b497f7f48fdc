-- Text as Go reads it: UTF-8, with each invalid byte counted as one U+FFFD.

local M = {}

local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local floor = math.floor

-- decode returns the character at s[i] and its length in bytes, like DecodeRune of
-- unicode/utf8: an invalid byte is U+FFFD and has length 1.
local function decode(s, i)
  local a, b, c, d = byte(s, i, i + 3)
  if a < 0x80 then return a, 1 end
  if a < 0xC2 or a > 0xF4 or not b then return 0xFFFD, 1 end
  if a < 0xE0 then
    if b < 0x80 or b > 0xBF then return 0xFFFD, 1 end
    return (a - 0xC0) * 64 + b - 0x80, 2
  end
  local low, high = 0x80, 0xBF
  if a == 0xE0 then low = 0xA0 elseif a == 0xED then high = 0x9F
  elseif a == 0xF0 then low = 0x90 elseif a == 0xF4 then high = 0x8F end
  if b < low or b > high or not c or c < 0x80 or c > 0xBF then return 0xFFFD, 1 end
  if a < 0xF0 then return (a - 0xE0) * 4096 + (b - 0x80) * 64 + c - 0x80, 3 end
  if not d or d < 0x80 or d > 0xBF then return 0xFFFD, 1 end
  return (a - 0xF0) * 262144 + (b - 0x80) * 4096 + (c - 0x80) * 64 + d - 0x80, 4
end
M.decode = decode

-- encode returns a character in UTF-8. An invalid one becomes U+FFFD.
function M.encode(r)
  if r < 0x80 then return char(r) end
  if r < 0x800 then return char(0xC0 + floor(r / 64), 0x80 + r % 64) end
  if r >= 0xD800 and r < 0xE000 or r > 0x10FFFF then return "\239\191\189" end
  if r < 0x10000 then return char(0xE0 + floor(r / 4096), 0x80 + floor(r / 64) % 64, 0x80 + r % 64) end
  return char(0xF0 + floor(r / 262144), 0x80 + floor(r / 4096) % 64, 0x80 + floor(r / 64) % 64, 0x80 + r % 64)
end

-- size returns the number of characters.
function M.size(s)
  if not find(s, "[\128-\255]") then return #s end
  local n, i = 0, 1
  while i <= #s do
    local _, width = decode(s, i)
    n, i = n + 1, i + width
  end
  return n
end

-- White space beyond ASCII, with its length in bytes.
local wide = { ["\194\133"] = 2, ["\194\160"] = 2, ["\225\154\128"] = 3, ["\226\128\168"] = 3,
  ["\226\128\169"] = 3, ["\226\128\175"] = 3, ["\226\129\159"] = 3, ["\227\128\128"] = 3 }
for i = 128, 138 do wide["\226\128" .. char(i)] = 3 end

-- White space in ASCII.
local space = { [9] = true, [10] = true, [11] = true, [12] = true, [13] = true, [32] = true }

-- trim returns s without leading and trailing white space, as strings.TrimSpace does.
function M.trim(s)
  local from, to = 1, #s
  while from <= to do
    local c = byte(s, from)
    if space[c] then
      from = from + 1
    else
      local width = c >= 0xC2 and (wide[sub(s, from, from + 1)] or wide[sub(s, from, from + 2)])
      if not width or from + width - 1 > to then break end
      from = from + width
    end
  end
  while to >= from do
    local c = byte(s, to)
    if space[c] then
      to = to - 1
    else
      local width = c >= 0x80 and to > from and (wide[sub(s, to - 1, to)] or to > from + 1 and wide[sub(s, to - 2, to)])
      if not width then break end
      to = to - width
    end
  end
  if from == 1 and to == #s then return s end
  return sub(s, from, to)
end

return M
