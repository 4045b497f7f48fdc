-- Numbers that nobody can guess, and no two workers share.

local ffi = require "ffi"

local M = {}

ffi.cdef [[ int weir_random(unsigned char *to, int n) __asm__("RAND_bytes"); ]]
local crypto = pcall(function() return ffi.C.weir_random end) and ffi.C or ffi.load("crypto")

-- What was drawn together, since one more byte costs nothing beside the call; each is used
-- once, and by the process that drew it.
local SIZE = 1024
local bytes = ffi.new("unsigned char[?]", SIZE)
local at, owner = SIZE, nil

-- draw is where the next n bytes are.
local function draw(n)
  local pid = ngx.worker.pid()
  if at + n > SIZE or owner ~= pid then
    if crypto.weir_random(bytes, SIZE) ~= 1 then error("weir: no random numbers") end
    at, owner = 0, pid
  end
  at = at + n
  return at - n
end

-- id is 128 bits as text.
function M.id() return ngx.encode_base64(ffi.string(bytes + draw(16), 16), true) end

-- below is a whole number from 0 and below n, which is at most 2^48.
function M.below(n)
  local from, x = draw(6), 0
  for i = from, from + 5 do x = x * 256 + bytes[i] end
  return math.floor(x / 2 ^ 48 * n)
end

return M
