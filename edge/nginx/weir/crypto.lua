-- SHA-256 and random numbers, by OpenSSL's libcrypto.

local ffi = require "ffi"

local M = {}

local encode_base64, floor, pid = ngx.encode_base64, math.floor, ngx.worker.pid

-- Names of Weir's own, since another module may have declared these functions differently.
ffi.cdef [[
unsigned char *weir_sha256(const char *text, size_t length, unsigned char *sum) __asm__("SHA256");
int weir_random(unsigned char *to, int n) __asm__("RAND_bytes");
]]

-- library returns libcrypto: nginx itself, if it is linked with it, or the library beside it.
local function library()
  if pcall(function() return ffi.C.weir_sha256 end) then return ffi.C end
  for _, name in ipairs { "crypto", "libcrypto.so.3", "libcrypto.so.1.1" } do
    local ok, lib = pcall(ffi.load, name)
    if ok then return lib end
  end
  error("weir: install libcrypto, of OpenSSL", 0)
end

local crypto = library()
local digest = ffi.new("unsigned char[32]")

-- sha256 returns the 32 bytes of a digest, which the next call overwrites.
function M.sha256(text)
  crypto.weir_sha256(text, #text, digest)
  return digest
end

-- A buffer of random bytes, since a larger call costs no more than a small one. Each byte
-- is used once, and only by the process that generated it.
local SIZE = 1024
local bytes = ffi.new("unsigned char[?]", SIZE)
local at, owner = SIZE, nil

-- draw returns the position of the next n bytes.
local function draw(n)
  if at + n > SIZE or owner ~= pid() then
    if crypto.weir_random(bytes, SIZE) ~= 1 then error("weir: no random numbers") end
    at, owner = 0, pid()
  end
  at = at + n
  return at - n
end

-- id returns 128 random bits as text.
function M.id() return encode_base64(ffi.string(bytes + draw(16), 16), true) end

-- below returns a random integer from 0 to n-1, with n at most 2^48.
function M.below(n)
  local from, x = draw(6), 0
  for i = from, from + 5 do x = x * 256 + bytes[i] end
  return floor(x / 2 ^ 48 * n)
end

return M
