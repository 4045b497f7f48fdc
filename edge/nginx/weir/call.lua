-- A call of the script: a list of requests as KEYS and ARGV, and its answers as
-- tables. What redisstore sends and reads (wire.go, names.go), byte for byte; the
-- script says in its own main.lua and holds.lua what it takes.
--
-- A request is { key, rule, verb, n, from, carry, id, ttl, at }: ttl of a reservation
-- and the instant at which a Return's charge was made are µs.

local bit = require "bit"
local ffi = require "ffi"
local calendar = require "weir.calendar"

local byte, format = string.byte, string.format
local band, rshift = bit.band, bit.rshift
local ceil, floor = math.ceil, math.floor
local tonumber, tostring, type = tonumber, tostring, type
local ffi_copy, ffi_string = ffi.copy, ffi.string

if ffi.abi("be") then error("weir: the numbers of a call are little-endian, and so has the machine to be") end

ffi.cdef [[
unsigned char *weir_sha256(const char *text, size_t length, unsigned char *sum) __asm__("SHA256");
]]
local crypto = pcall(function() return ffi.C.weir_sha256 end) and ffi.C or ffi.load("crypto")

local M = {
  TAKE = 0, TAKE_UP_TO = 1, PEEK = 2, CHARGE = 3, RETURN = 4, RESET = 5, RESERVE = 6, COMMIT = 7, CANCEL = 8,
  EACH = 0, ALL = 1, -- modes: each request for itself; all or none
  MOST = 1024, -- requests of a call
}
local CHARGE, RETURN, RESET, RESERVE, COMMIT, CANCEL = M.CHARGE, M.RETURN, M.RESET, M.RESERVE, M.COMMIT, M.CANCEL

-- The codes of an answer.
local OK, UNKNOWN, HOLDS, AGAIN = 1, 2, 3, 4

local MAX = 2^53 - 1 -- the largest instant and number of tokens
local MAX_KEY, MAX_ID, MAX_TTL = 64 * 1024, 256, 30 * 24 * 3600 * 1e6
local LONGEST = 100 -- bytes of an encoded key that are readable in a name
local FEW = 8 -- names that are looked for one by one

local digest = ffi.new("unsigned char[32]")

local function sha256(text)
  crypto.weir_sha256(text, #text, digest)
  return digest
end

-- How a byte of a key stands in a name: as itself if SAFE says so, a space as +, and any
-- other as its digits.
local SAFE = ffi.new("bool[256]")
for c = 0, 255 do SAFE[c] = string.char(c):find("[%w:%-._~/@=,]") ~= nil end
local UPPER, LOWER = ffi.new("char[17]", "0123456789ABCDEF"), ffi.new("char[17]", "0123456789abcdef")
local made = ffi.new("char[?]", LONGEST + 3)

-- escaped is a key as it stands in a name; nil if that is too long. It is a loop, and no
-- gsub, since LuaJIT compiles loops.
local function escaped(key)
  local n = 0
  for i = 1, #key do
    local c = byte(key, i)
    if SAFE[c] then
      made[n] = c
      n = n + 1
    elseif c == 32 then
      made[n] = 43
      n = n + 1
    else
      made[n], made[n + 1], made[n + 2] = 37, UPPER[rshift(c, 4)], UPPER[band(c, 15)]
      n = n + 3
    end
    if n > LONGEST then return nil end
  end
  return ffi_string(made, n)
end

-- encode makes a key of anybody's choice safe to stand between braces, and bounds its
-- length.
local function encode(key)
  local e = #key <= LONGEST and escaped(key)
  if e then return e end
  local sum = sha256(key)
  made[0] = 35
  for i = 0, 31 do made[2 * i + 1], made[2 * i + 2] = LOWER[rshift(sum[i], 4)], LOWER[band(sum[i], 15)] end
  return ffi_string(made, 65)
end

-- slot is the number of a concurrency slot: 53 bits of the SHA-256 of its id.
local function slot(id)
  local sum, n = sha256(id), 0
  n = sum[6] % 32
  for i = 5, 0, -1 do n = n * 256 + sum[i] end
  return n > 0 and n or 1
end

-- The call in the making. Nothing here yields, so that one is made at a time.
local head = ffi.new("int64_t[?]", 3 + 5 * M.MOST)
local seen, seen_at = {}, {} -- rules, and where they stand in ARGV
local keys, args, index, held, n_keys, n_args, n_seen, prefix, now
local last_key, last_encoded

local function name(key, rule)
  if key ~= last_key then last_key, last_encoded = key, encode(key) end
  return prefix .. "{" .. last_encoded .. "}:" .. rule.suffix
end

-- place is where a state stands in KEYS, and where its hold keys do, or 0.
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

-- rule_at is where a rule stands in ARGV; nil and a problem for a calendar without
-- windows for now.
local function rule_at(rule)
  for i = 1, n_seen do
    local s = seen[i]
    if s == rule or s.limit == rule.limit then return seen_at[i] end
  end
  local packed = rule.packed
  if rule.calendar then
    local problem
    packed, problem = calendar.packed(rule, now)
    if not packed then return nil, problem end
  elseif not packed then
    packed = calendar.pack(rule.params)
    rule.packed = packed
  end
  local at = arg(rule.algorithm)
  arg(packed)
  n_seen = n_seen + 1
  seen[n_seen], seen_at[n_seen] = rule, at
  return at
end

-- more adds the rest of a request as the script's holds.lua takes it.
local function more(r, hold)
  local rule, verb, n, from = r.rule, r.verb, r.n, r.from
  local at, ttl, id, id_at = 0, 0, 0, 0
  if verb == RETURN and r.at then
    at = r.at < 1 and 1 or r.at > MAX and MAX or r.at
  elseif verb == COMMIT then
    ttl = floor(n / 2^53)
    at = n - ttl * 2^53
  elseif verb == RESERVE then
    ttl = ceil(r.ttl)
  end
  if verb >= RESERVE then
    if (rule.lease or 0) > 0 then id = slot(r.id) else id_at = arg(r.id) end
  end
  local text = format("[%d,%d,%d,%d,%d", hold, at, ttl, id, id_at)
  if from and from[1] then
    text = format("%s,%d,%d", text, r.carry or 0, rule.capacity)
    for i = 1, #from do
      local old = from[i]
      if old ~= rule and old.limit ~= rule.limit then
        local key_at, hold_at = place(name(r.key, old), true)
        local at_rule, problem = rule_at(old)
        if not at_rule then return nil, problem end
        text = format("%s,%d,%d,%d,%d", text, key_at, at_rule, hold_at, old.capacity)
      end
    end
  end
  return arg(text .. "]")
end

local function whole(n, least, most) return type(n) == "number" and n % 1 == 0 and n >= least and n <= most end

-- M.problem is what keeps a request from being decided, as weir.Request.Validate has
-- it, or nil.
function M.problem(r)
  local key, verb, n = r.key, r.verb, r.n
  if not r.rule then return "weir: limit: a request needs a limit" end
  if type(key) ~= "string" or key == "" then return "weir: key: want a key of at least 1 byte" end
  if #key > MAX_KEY then return "weir: key: want at most 65536 bytes, got " .. #key end
  if not whole(n, 0, 2^63 - 1024) then return "weir: cost: want a whole number of tokens from 0, got " .. tostring(n) end
  if not whole(verb, 0, CANCEL) then return "weir: verb: want one of the verbs, got " .. tostring(verb) end
  if r.carry and not whole(r.carry, 0, 3) then return "weir: carry: want 0 to 3, got " .. tostring(r.carry) end
  if r.at and not whole(r.at, -MAX, MAX) then return "weir: at: want an instant in µs, got " .. tostring(r.at) end
  if verb < RESERVE then return nil end
  local id, ttl = r.id, r.ttl
  if type(id) ~= "string" or id == "" or #id > MAX_ID then return "weir: id: want 1 to 256 bytes" end
  if verb > RESERVE then return nil end
  if type(ttl) ~= "number" or not (ttl >= 1 and ttl <= MAX_TTL) then
    return "weir: ttl: reserve wants 1 µs to 30 days, got " .. tostring(ttl)
  end
  if n == 0 then return "weir: cost: reserve wants at least 1 token, got 0" end
end

-- M.build is requests as KEYS and ARGV; or nil and a problem. All names begin with
-- start; at is µs since the epoch, by which a calendar has its windows; declare has
-- the hold keys of all states declared. The script's own clock decides.
function M.build(requests, mode, start, at, declare)
  local n = #requests
  if n > M.MOST then return nil, "weir: batch: want at most 1024 requests, got " .. n end
  keys, args, held, index = {}, { "" }, nil, n > FEW and {} or nil
  n_keys, n_args, n_seen, prefix, now = 0, 1, 0, start, at
  head[0], head[1], head[2] = 0, 0, mode
  local h = 3
  for i = 1, n do
    local r = requests[i]
    local problem = M.problem(r)
    if problem then return nil, problem end
    local rule, verb, from = r.rule, r.verb, r.from
    local key_at, hold = place(name(r.key, rule), declare or rule.holds or verb >= RESET or from and from[1])
    local at_rule, rest = nil, 0
    at_rule, problem = rule_at(rule)
    if at_rule and (hold ~= 0 or verb == RETURN and r.at) then rest, problem = more(r, hold) end
    if problem then return nil, problem end
    head[h], head[h + 1], head[h + 2], head[h + 3], head[h + 4] = key_at, at_rule, verb, r.n < MAX and r.n or MAX, rest
    h = h + 5
  end
  args[1] = ffi_string(head, 8 * h)
  return keys, args
end

local numbers = ffi.new("int64_t[7]")

-- M.answer is what the script says of a request. Without it: nil and true if the hold
-- keys have to be declared, nil and a problem otherwise.
function M.answer(r, text)
  if type(text) ~= "string" then return nil, "an answer that is no text" end
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
  local a = {
    ok = ok, granted = granted, remaining = remaining > 0 and remaining or 0,
    retry = tonumber(numbers[3]), reset = tonumber(numbers[4]), delay = delay, at = tonumber(numbers[6]),
  }
  if code == UNKNOWN then a.unknown = true end
  return a
end

return M
