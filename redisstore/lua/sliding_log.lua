-- Twin of internal/algo/sliding_log.go, where the idea and the formula are.
--
-- State: s[1] the instant of the newest entry, µs; s[2] the running total of
-- tokens up to and with it.
-- Params: count, period µs.
--
-- The entries stay in Redis, so a decision reads one or two of them and not the whole log.
-- The key is a sorted set. Its first member, with score 0, is the head: the text that is
-- the whole state of other algorithms. Every other member is an entry: its score is its
-- instant, its text the running total and the tokens of the entry, "0000000000000042:2".
--
-- A decision writes nothing. Changes at the end of the log are in s until save:
--   s.key   the set that holds the entries before s.cut; nil: none
--   s.head  the text of its head
--   s.cut   entries of the set from this instant on do not count; nil: all do
--   s.tail  the entries after those: instant, running total, tokens, and so on
--   s.from  instants before this have left the period

local call, format = redis.call, string.format

-- At MANY entries a further charge is added to the newest one. A running total beyond FAR
-- restarts at zero.
local MANY, FAR = 10000, 4503599627370496

local function micros(v) return format('%.0f', v) end

-- set returns entries of the set, like ZRANGEBYSCORE and ZREVRANGEBYSCORE.
local function set(s, from, limit, reverse)
  if not s.key then return {} end
  local low, high = micros(from), s.cut and '(' .. micros(s.cut) or '+inf'
  if reverse then return call('ZREVRANGEBYSCORE', s.key, high, low, 'WITHSCORES', 'LIMIT', 0, limit) end
  return call('ZRANGEBYSCORE', s.key, low, high, 'WITHSCORES', 'LIMIT', 0, limit)
end

-- split returns the running total and the tokens of an entry of the set.
local function split(text)
  local total, n = string.match(text, '^(%d+):(%d+)$')
  return total + 0, n + 0
end

-- first returns the oldest entry from an instant on: instant, running total, tokens.
local function first(s, from)
  local e = set(s, from, 1)
  if e[1] then return e[2] + 0, split(e[1]) end
  local tail = s.tail or {}
  for i = 1, #tail, 3 do
    if tail[i] >= from then return tail[i], tail[i + 1], tail[i + 2] end
  end
end

-- reaching returns the instant of the first entry whose running total is at least x.
local function reaching(s, x)
  if s.key then
    local low, high = 1, call('ZCOUNT', s.key, '-inf', s.cut and '(' .. micros(s.cut) or '+inf')
    local found
    while low < high do
      local mid = math.floor((low + high) / 2)
      local e = call('ZRANGE', s.key, mid, mid, 'WITHSCORES')
      if split(e[1]) < x then low = mid + 1 else high, found = mid, e[2] + 0 end
    end
    if found then return found end
  end
  for i = 1, #s.tail, 3 do
    if s.tail[i + 1] >= x then return s.tail[i] end
  end
end

-- pull moves the entries from an instant on into the tail, so that they can be changed.
local function pull(s, from)
  local e, tail = set(s, from, -1), {}
  for i = 1, #e, 2 do
    local total, n = split(e[i])
    local c = #tail
    tail[c + 1], tail[c + 2], tail[c + 3] = e[i + 1] + 0, total, n
  end
  for _, v in ipairs(s.tail or {}) do tail[#tail + 1] = v end
  s.tail = tail
  if s.key and (not s.cut or from < s.cut) then s.cut = from end
end

-- detach moves every entry into the tail, for another key.
local function detach(s)
  pull(s, 1)
  s.key, s.head, s.cut = nil, nil, nil
end

-- keep moves the entries from an instant on into the tail; no others count.
local function keep(s, from)
  pull(s, from)
  s.cut = 1
end

-- clear empties the log.
local function clear(s)
  s[1], s[2], s.tail, s.cut = nil, nil, {}, 1
end

-- add appends n tokens at now to a log of which gone tokens have left the period.
local function add(s, now, n, gone, joins)
  if gone == (s[2] or 0) then
    clear(s)
    gone = 0
  elseif s[2] + n > FAR then
    pull(s, s.from)
    for i = 2, #s.tail, 3 do s.tail[i] = s.tail[i] - gone end
    s.cut, s[2] = 1, s[2] - gone
  end
  joins = joins or s[1] == now
  if joins then pull(s, s[1]) end
  s.tail = s.tail or {}
  local tail, total = s.tail, (s[2] or 0) + n
  local c = #tail
  if joins then
    tail[c - 2], tail[c - 1], tail[c] = now, total, tail[c] + n
  else
    tail[c + 1], tail[c + 2], tail[c + 3] = now, total, n
  end
  s[1], s[2] = now, total
end

-- drop removes n tokens from the entry at s.tail[i], and an empty entry.
local function drop(s, i, n)
  local tail = s.tail
  tail[i + 2] = tail[i + 2] - n
  for j = i + 1, #tail, 3 do tail[j] = tail[j] - n end
  if tail[i + 2] == 0 then
    for _ = 1, 3 do table.remove(tail, i) end
  end
end

-- give removes n tokens from the entry of the instant at; 0 is the newest entry.
local function give(s, n, at)
  local from = s.from
  if at ~= 0 then
    if at < from or first(s, at) ~= at then return end
    pull(s, at)
    local i = 1
    while s.tail[i] ~= at do i = i + 3 end
    drop(s, i, math.min(n, s.tail[i + 2]))
  else
    while n > 0 do
      local i = #(s.tail or {}) - 2
      if i > 0 then
        if s.tail[i] < from then break end
        local g = math.min(n, s.tail[i + 2])
        drop(s, i, g)
        n = n - g
      else
        local e = set(s, from, 1, true)
        if not e[1] then break end
        pull(s, e[2] + 0)
      end
    end
  end
  local c = #s.tail
  if c > 0 then
    s[1], s[2] = s.tail[c - 2], s.tail[c - 1]
    return
  end
  local e = set(s, from, 1, true)
  if e[1] then s[1], s[2] = e[2] + 0, split(e[1]) else clear(s) end
end

-- full reports whether MANY entries are in the period.
local function full(s)
  local count = s.key and call('ZCOUNT', s.key, micros(s.from), s.cut and '(' .. micros(s.cut) or '+inf') or 0
  local tail = s.tail or {}
  for i = 1, #tail, 3 do
    if tail[i] >= s.from then count = count + 1 end
  end
  return count >= MANY
end

local function decide(s, p, op, now, n, at)
  local count, period = p[1], p[2]
  local instant = s[1] and s[1] > now and s[1] or now
  local from = math.max(1, instant - period + 1)
  local used, gone, oldest, reached = 0, s[2] or 0, nil, nil
  if s[1] and s[1] >= from then
    local tokens
    oldest, reached, tokens = first(s, from)
    gone = reached - tokens
    used = s[2] - gone
  end
  local left = count - used
  local ok, granted, retry, want = true, 0, 0, n
  if op == TAKE then
    if n <= left or n == 0 then granted = n else ok = false end
  elseif op == TAKE_UP_TO then
    granted = n < left and n or left > 0 and left or 0
    ok, want = granted > 0 or n == 0, 1
  elseif op == PEEK then
    ok = n <= left or n == 0
  elseif op == CHARGE then
    granted = n
  elseif used > 0 and n > 0 then
    s.from = from
    give(s, n, at)
    used = math.max(0, (s[2] or 0) - gone)
  end
  if not ok then
    local x = gone + used + want - count
    if want > count then
      retry = NEVER
    elseif reached >= x then
      retry = oldest + period - now
    else
      retry = reaching(s, x) + period - now
    end
  elseif granted > 0 and used < 2 * MAX_COUNT then
    local more = granted
    if more > 2 * MAX_COUNT - used then more = 2 * MAX_COUNT - used end
    s.from = from
    add(s, instant, more, gone, op == CHARGE and used > 0 and instant > s[1] and full(s))
    used = used + more
  end
  return ok, granted, count - used, retry, used > 0 and s[1] + period - now or 0, 0
end

local function shift(s, p, d)
  if not s[1] then return end
  pull(s, 1)
  for i = 1, #s.tail, 3 do s.tail[i] = math.max(1, s.tail[i] - d) end
  s[1] = math.max(1, s[1] - d)
end

-- load returns the head of the log at key, or false, or an error.
local function load(key)
  local e = redis.pcall('ZRANGE', key, 0, 0)
  if e.err then return e end
  return e[1] or false
end

-- save writes the changes of s and the new head, with a TTL in ms.
local function save(key, s, head, ttl)
  if s.key then
    call('ZREM', key, s.head)
    if s.from and s.from > 1 then call('ZREMRANGEBYSCORE', key, 1, '(' .. micros(s.from)) end
    if s.cut then call('ZREMRANGEBYSCORE', key, micros(s.cut), '+inf') end
  else
    call('DEL', key)
  end
  call('ZADD', key, 0, head)
  local tail = s.tail or {}
  for i = 1, #tail, 3 do
    call('ZADD', key, micros(tail[i]), format('%016.0f:%.0f', tail[i + 1], tail[i + 2]))
  end
  call('PEXPIRE', key, ttl)
end

return { decide = decide, shift = shift, load = load, save = save, detach = detach, keep = keep }
