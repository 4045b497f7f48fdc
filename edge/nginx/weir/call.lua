-- A call of the script: requests as KEYS and ARGV, and its answers as tables, byte for byte
-- as redisstore writes and reads them. redisstore/lua documents the form.
--
-- A request is { key, rule, verb, n, id, ttl }, with the ttl of a reservation in µs.

local bit = require "bit"
local ffi = require "ffi"
local sha256 = require("weir.crypto").sha256

local byte, format = string.byte, string.format
local band, rshift = bit.band, bit.rshift
local ceil, floor = math.ceil, math.floor
local tonumber, type = tonumber, type
local ffi_copy, ffi_string = ffi.copy, ffi.string

if ffi.abi("be") then error("weir: the machine is big-endian: want a little-endian one", 0) end

local M = {}

local EACH_MODE, ALL_MODE = 0, 1 -- decide each request on its own; all or none
local CHARGE, RESERVE, COMMIT = 3, 6, 7 -- verbs, as in weir.Verb

-- The codes of an answer.
local OK, UNKNOWN, HOLDS, AGAIN = 1, 2, 3, 4

local MAX = 2^53 - 1 -- the largest number of tokens
local MAX_REQUESTS = 1024 -- of a call: 7 words each, and a LuaJIT function takes at most 8000 arguments
local READABLE = 100 -- the maximum length of an encoded key that is not hashed
local FEW = 8 -- names that are searched one by one

-- How a byte of a key is encoded in a name: itself if SAFE, a space as +, any other as its
-- hexadecimal digits.
local SAFE = ffi.new("bool[256]")
for c = 0, 255 do SAFE[c] = string.char(c):find("[%w:%-._~/@=,]") ~= nil end
local UPPER, LOWER = ffi.new("char[17]", "0123456789ABCDEF"), ffi.new("char[17]", "0123456789abcdef")
local buffer = ffi.new("char[?]", READABLE + 3)

-- escaped returns the encoded form of a key, or nil if that is too long. It is a loop
-- rather than a gsub, because LuaJIT compiles loops.
local function escaped(key)
  local n = 0
  for i = 1, #key do
    local c = byte(key, i)
    if SAFE[c] then
      buffer[n] = c
      n = n + 1
    elseif c == 32 then
      buffer[n] = 43
      n = n + 1
    else
      buffer[n], buffer[n + 1], buffer[n + 2] = 37, UPPER[rshift(c, 4)], UPPER[band(c, 15)]
      n = n + 3
    end
    if n > READABLE then return nil end
  end
  return ffi_string(buffer, n)
end

-- encode makes any key safe between braces and bounds its length.
local function encode(key)
  local e = #key <= READABLE and escaped(key)
  if e then return e end
  local sum = sha256(key)
  buffer[0] = 35
  for i = 0, 31 do buffer[2 * i + 1], buffer[2 * i + 2] = LOWER[rshift(sum[i], 4)], LOWER[band(sum[i], 15)] end
  return ffi_string(buffer, 65)
end

-- slot returns the number of a concurrency slot: 53 bits of the SHA-256 of its id.
local function slot(id)
  local sum = sha256(id)
  local n = sum[6] % 32
  for i = 5, 0, -1 do n = n * 256 + sum[i] end
  return n > 0 and n or 1
end

-- The call that is being built. Nothing here yields, so there is only one.
local head = ffi.new("int64_t[?]", 3 + 5 * MAX_REQUESTS)
local seen, seen_at = {}, {} -- rules, and their positions in ARGV
local keys, args, index, held, n_keys, n_args, n_seen, prefix
local last_key, last_encoded

-- name returns the name of a state in Redis.
local function name(start, key, rule)
  if key ~= last_key then last_key, last_encoded = key, encode(key) end
  return start .. "{" .. last_encoded .. "}:" .. rule.suffix
end
M.name = name

-- place returns the position of a state in KEYS and that of its hold keys, or 0.
local function place(state, holds)
  local at
  if index then
    at = index[state]
  else
    for i = 1, n_keys do
      if keys[i] == state then
        at = i
        break
      end
    end
  end
  if not at then
    at = n_keys + 1
    n_keys = at
    keys[at] = state
    if index then index[state] = at end
  end
  local hold = held and held[at]
  if holds and not hold then
    hold = n_keys + 1
    keys[hold], keys[hold + 1] = state .. ":holds", state .. ":deadlines"
    n_keys = hold + 1
    held = held or {}
    held[at] = hold
  end
  return at, hold or 0
end

local function arg(text)
  n_args = n_args + 1
  args[n_args] = text
  return n_args
end

-- rule_at returns the position of a rule in ARGV, negative if its states are named.
local function rule_at(rule)
  for i = 1, n_seen do
    if seen[i] == rule then return seen_at[i] end
  end
  local at = arg(rule.algorithm)
  arg(rule.packed)
  if rule.stored then
    arg(rule.stored)
    at = -at
  end
  n_seen = n_seen + 1
  seen[n_seen], seen_at[n_seen] = rule, at
  return at
end

-- more adds the fields of a request that only the script's reservations.lua reads.
local function more(r, hold)
  local verb, n = r.verb, r.n
  local at, ttl, id, id_at = 0, 0, 0, 0
  if verb == COMMIT then
    ttl = floor(n / 2^53)
    at = n - ttl * 2^53
  elseif verb == RESERVE then
    ttl = ceil(r.ttl)
  end
  if verb >= RESERVE then
    if r.rule.lease then id = slot(r.id) else id_at = arg(r.id) end
  end
  return arg(format("[%d,%d,%d,%d,%d]", hold, at, ttl, id, id_at))
end

-- build returns requests as KEYS and ARGV, or nil and an error. All names begin with start.
-- With all, the script decides all or none. With declare, the hold keys of every state are
-- declared.
function M.build(requests, all, start, declare)
  local n = #requests
  if n > MAX_REQUESTS then return nil, "weir: batch: want at most " .. MAX_REQUESTS .. " requests, got " .. n end
  keys, args, held, index = {}, { "" }, nil, n > FEW and {} or nil
  n_keys, n_args, n_seen, prefix = 0, 1, 0, start
  head[0], head[1], head[2] = 0, 0, all and ALL_MODE or EACH_MODE
  local h = 3
  for i = 1, n do
    local r = requests[i]
    local rule, verb = r.rule, r.verb
    local key_at, hold = place(name(prefix, r.key, rule), declare or rule.holds or verb >= RESERVE)
    local at_rule, rest = rule_at(rule), 0
    if hold ~= 0 then rest = more(r, hold) end
    head[h], head[h + 1], head[h + 2], head[h + 3], head[h + 4] = key_at, at_rule, verb, r.n < MAX and r.n or MAX, rest
    h = h + 5
  end
  args[1] = ffi_string(head, 8 * h)
  return keys, args
end

local numbers = ffi.new("int64_t[7]")

-- answer returns what the script answered to a request:
--
--   { ok, granted, remaining, retry = µs or -1 for never, reset = µs, delay = µs, at = µs,
--     unknown = true for a reservation that does not exist, rule, label = "" }
--
-- It returns nil and true if the script needs the hold keys declared, and nil and an error
-- if the request was not decided.
function M.answer(r, text)
  if type(text) ~= "string" then return nil, "an answer that is not a text" end
  if #text ~= 56 then
    if byte(text) == 33 then return nil, text:sub(2, 200) end
    return nil, "want an answer of 56 bytes, got " .. #text
  end
  ffi_copy(numbers, text, 56)
  local code, granted, remaining = tonumber(numbers[0]), tonumber(numbers[1]), tonumber(numbers[2])
  if code == HOLDS then return nil, true end
  local delay, verb = tonumber(numbers[5]), r.verb
  local ok = code == OK or code == AGAIN
  if verb == CHARGE then
    if ok then granted = r.n end
  elseif verb >= COMMIT then
    granted, delay = granted + delay * 2^53, 0
  end
  return {
    ok = ok, granted = granted, remaining = remaining > 0 and remaining or 0, retry = tonumber(numbers[3]),
    reset = tonumber(numbers[4]), delay = delay, at = tonumber(numbers[6]), unknown = code == UNKNOWN or nil,
    rule = r.rule, label = "",
  }
end

return M
