-- Numbers that nobody can guess, and no two workers share.

local ffi = require "ffi"

local M = {}

ffi.cdef [[ int weir_random(unsigned char *to, int n) __asm__("RAND_bytes"); ]]
local crypto = pcall(function() return ffi.C.weir_random end) and ffi.C or ffi.load("crypto")
local bytes = ffi.new("unsigned char[16]")

local function fill(n)
  if crypto.weir_random(bytes, n) ~= 1 then error("weir: no random numbers") end
end

-- id is 128 bits as text.
function M.id()
  fill(16)
  return ngx.encode_base64(ffi.string(bytes, 16), true)
end

-- below is a whole number from 0 and below n, which is at most 2^48.
function M.below(n)
  fill(6)
  local x = 0
  for i = 0, 5 do x = x * 256 + bytes[i] end
  return math.floor(x / 2 ^ 48 * n)
end

return M
