-- Whole numbers of 64 bits: a number of Lua up to 2^53 - 1 of either sign, and an
-- int64_t beyond. Every function returns nil and a text where the result has more bits.

local ffi = require "ffi"

local M = {}

local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
local MOST = 2 ^ 53 - 1
local LEAST64, MOST64 = int64(-2 ^ 63), 0x7fffffffffffffffLL
local OVERFLOW = "integer overflow"

local fmod, type, tonumber = math.fmod, type, tonumber

-- plain is n as a number of Lua, if it can be one.
local function plain(n)
  if n >= -MOST and n <= MOST then return tonumber(n) end
  return n
end

-- small says whether n is a number that Lua has exactly.
local function small(n) return n >= -MOST and n <= MOST end

local function both(a, b) return type(a) == "number" and type(b) == "number" end

function M.add(a, b)
  if both(a, b) and small(a + b) then return a + b end
  a, b = int64(a), int64(b)
  local r = a + b
  if b > 0 and r < a or b < 0 and r > a then return nil, OVERFLOW end
  return plain(r)
end

function M.subtract(a, b)
  if both(a, b) and small(a - b) then return a - b end
  a, b = int64(a), int64(b)
  local r = a - b
  if b > 0 and r > a or b < 0 and r < a then return nil, OVERFLOW end
  return plain(r)
end

function M.multiply(a, b)
  if both(a, b) and small(a * b) then return a * b + 0 end
  a, b = int64(a), int64(b)
  if a == -1 and b == LEAST64 or b == -1 and a == LEAST64 then return nil, OVERFLOW end
  local r = a * b
  if b ~= 0 and r / b ~= a then return nil, OVERFLOW end
  return plain(r)
end

function M.negate(a)
  if type(a) == "number" then return 0 - a end
  if a == LEAST64 then return nil, OVERFLOW end
  return plain(-a)
end

-- divide is the quotient, cut towards 0.
function M.divide(a, b)
  if b == 0 then return nil, "division by zero" end
  if both(a, b) then return (a - fmod(a, b)) / b + 0 end
  a, b = int64(a), int64(b)
  if a == LEAST64 and b == -1 then return nil, OVERFLOW end
  return plain(a / b)
end

-- modulo is what a division leaves, with the sign of a.
function M.modulo(a, b)
  if b == 0 then return nil, "modulus by zero" end
  if both(a, b) then return fmod(a, b) + 0 end
  a, b = int64(a), int64(b)
  if a == LEAST64 and b == -1 then return nil, OVERFLOW end
  return plain(a % b)
end

-- parse reads a decimal number as strconv.ParseInt does.
function M.parse(text)
  local sign, digits = text:match("^([+-]?)0*(%d*)$")
  if not sign or not text:find("%d$") or #digits > 19 then return nil, "no whole number of 64 bits" end
  if #digits <= 15 then
    local n = digits == "" and 0 or tonumber(digits)
    if sign == "-" then return 0 - n end
    return n
  end
  local n = uint64(tonumber(digits:sub(1, -10))) * 1000000000ULL + uint64(tonumber(digits:sub(-9)))
  if sign == "-" then
    if n > 0x8000000000000000ULL then return nil, OVERFLOW end
    return plain(int64(0) - int64(n))
  end
  if n > 0x7fffffffffffffffULL then return nil, OVERFLOW end
  return plain(int64(n))
end

M.most = MOST64
return M
