-- The fast branch: Takes of token buckets and fixed windows, single ones and groups that charge all
-- or none.
--
-- KEYS      states, each once
-- ARGV[1]   clock and slack, as in main.lua, and units, packed, little-endian. A unit is
--           a group of requests of different keys that several callers made:
--             size     requests of the group, 2 bytes
--             times    callers, 2 bytes: their groups are decided one after the other
--           then for each request:
--             key      index in KEYS, 2 bytes
--             rule     index in ARGV of its params, 2 bytes. The rule's text of a named
--                      state follows in ARGV[rule + 1], else ''
--             n        tokens, 8 bytes
-- ARGV[2]   'takes'
-- returns   the text of each state before the call, '' if there is none; last, packed, the
--           clock and the admissions, 8 bytes each, and the indexes from 0 of the units that
--           were not decided, 2 bytes each
--
-- The caller computes the decisions from that with the twins, internal/algo/token_bucket.go and
-- internal/algo/fixed_window.go.
-- Of the equal groups of a unit, as many are admitted as fit: the first ones. A unit is not
-- decided, and writes nothing, if a state is of another rule, is no state, has reservations, or
-- is later than the clock: the general path decides these.
--
-- The params of a token bucket are eight numbers, those of a fixed window four. A state of either is
-- an instant and a number: the units of a TAT, or the tokens used in a window.

local unpack, call, attempt = struct.unpack, redis.call, redis.pcall
local floor, format, match = math.floor, string.format, string.match

local head = ARGV[1]
local clock, slack = unpack('<i8i8', head)
if clock == 0 then
  local t = call('TIME')
  clock = t[1] * 1000000 + t[2]
end

local out = {}
local owed, rest, tails = {}, {}, {} -- of the states by key: the instant less clock, the number, and the end of the text
local changed = {}
local admitted, undecided = 0, ''
local rules, balance, product = {}, nil, nil

-- Of a window, k is 0, tu the count, and tr the time until the end of a window that begins at clock.
local current, rule, k, tu, tr, span, span_rem, tail
local function use_rule(at)
  rule = rules[at]
  if not rule then
    local packed, text = ARGV[at], ARGV[at + 1]
    if #packed == 32 then
      local count, period, epoch = unpack('<i8i8i8', packed)
      if epoch == 1 then period = (floor(clock / period) + 1) * period - clock end
      rule = { 0, count, period }
    else
      rule = { unpack('<i8i8i8i8i8i8i8', packed) }
    end
    rule[8] = text == '' and ']' or ',"' .. text .. '"]'
    rules[at] = rule
  end
  current, k, tu, tr, span, span_rem, tail = at, rule[1], rule[2], rule[3], rule[5], rule[6], rule[8]
end

-- read reads a state, and returns its instant; nil if the general path has to decide.
local function read(key)
  local v = attempt('GET', KEYS[key])
  if not v then
    out[key] = ''
    owed[key], rest[key], tails[key] = 0, 0, tail
    return 0
  end
  out[key] = ''
  if type(v) ~= 'string' then return nil end
  local us, rem, last, more = match(v, '^%[(%d+),(%d+),(%d+)(.*)$')
  if more ~= tail or last + 0 > clock then return nil end
  out[key] = v
  local d = us - clock
  if d < 0 or d == 0 and k == 0 then d, rem = 0, 0 end
  owed[key], rest[key], tails[key] = d, rem + 0, tail
  return d
end

local at, last, index = 17, #head, 0
while at < last do
  local size, times, key, rule_at, n = unpack('<I2I2I2I2i8', head, at)
  at = at + 4
  local fits, from = times, at
  for i = 1, size do
    if i > 1 then key, rule_at, n = unpack('<I2I2i8', head, at) end
    at = at + 12
    if rule_at ~= current then use_rule(rule_at) end
    local d = owed[key] or out[key] == nil and read(key)
    if not d or tails[key] ~= tail then
      fits = -1
    elseif fits > 0 then
      local left
      if k == 0 then
        left = tu - rest[key]
      elseif k == 1 then
        left = floor((span - d) / tu)
      else
        balance = balance or use('token_bucket').balance
        left = balance(rule, span - d, span_rem - rest[key])
      end
      left = floor(left / n)
      if left < fits then fits = left > 0 and left or 0 end
    end
  end
  if fits < 0 then
    undecided = undecided .. struct.pack('<I2', index)
  elseif fits > 0 then
    admitted = admitted + fits
    for i = 1, size do
      if size > 1 then
        key, rule_at, n = unpack('<I2I2i8', head, from)
        from = from + 12
        if rule_at ~= current then use_rule(rule_at) end
      end
      local count = fits * n
      local cost, units
      if k == 0 then
        cost, units = owed[key] == 0 and tr or 0, rest[key] + count
      else
        cost, units = count * tu, count * tr
        if units > MAX_INSTANT then
          product = product or use('emission').product
          cost, units = product(k, tu, tr, count)
        elseif units > 0 then
          local whole = floor(units / k)
          cost, units = cost + whole, units - whole * k
        end
        units = units + rest[key]
        if units >= k then cost, units = cost + 1, units - k end
      end
      owed[key], rest[key] = owed[key] + cost, units
      changed[key] = k
    end
  end
  index = index + 1
end

for key, units in pairs(changed) do
  local d, rem = owed[key], rest[key]
  local live = units > 0 and rem > 0 and d + 1 or d
  call('SET', KEYS[key], format('[%d,%d,%d%s', clock + d, rem, clock, tails[key]), 'PX', format('%d', (live + 999) / 1000 + 1 + slack))
end

out[#KEYS + 1] = struct.pack('<i8i8', clock, admitted) .. undecided
return out
