-- Reservations, which are returned at their deadline, and the other rare requests: Reset
-- and requests that carry over a state from an older limit.
--
-- A reservation is [n, at, deadline, actual, high] in the hash at KEYS[h] under its id. Its
-- deadline is the score of its id in the sorted set at KEYS[h + 1], negative once it is
-- settled. actual is the number of tokens at which it was settled, or -1; the bits from 2^53
-- on are in high. A settled reservation is kept until its deadline, so that a repeated
-- request gets the same reply. One of a tenant_bucket is longer: where the tokens are from, the
-- fingerprint of the parent, and the ID, rate, burst and weight of the child.
--
-- The rest of a request is a JSON array in ARGV: [reservations, at, ttl, id, name, carry,
-- capacity, then four numbers for each older limit of the key]
--   reservations  index in KEYS of its reservations, or 0
--   at            Return: instant of the charge, µs; 0: the newest. Commit: actual
--   ttl           Reserve: µs. Commit: high
--   id            number of a concurrency slot; 0: none. Return to a tenant: 3 if borrowed
--   name          index in ARGV of the reservation's id; 0: none
--   carry         weir.Carry
--   capacity      of the rule
--   key, rule, reservations, capacity of an older limit

local call, format, floor = redis.call, string.format, math.floor
local N, AT, DEADLINE, ACTUAL, HIGH, PLACE = 1, 2, 3, 4, 5, 6
local USAGE, PROPORTIONAL, AS_IS, ADDITIVE, AFRESH = 0, 1, 2, 3, 4

local function rest(more) return cjson.decode(ARGV[more]) end

local function micros(v) return format('%d', v) end

-- MANY is the largest number of ids in one command of Redis.
local MANY = 1000

-- CHUNK is the number of reservations that are read at once.
local CHUNK = 32

-- The reservations that a retry and a reset account for, as in internal/algo/due.go.
local MANY_RETRY, MANY_RESET = 512, 32

-- use prepares st for reading and changing its reservations. st.reservations collects the
-- changes until they are written; false is a reservation to delete.
local function use_reservations(st, h)
  if not st.h then st.h, st.reservations = h, {} end
end

local function find(st, id)
  local r = st.reservations[id]
  if r == nil and not st.wiped then
    local v = call('HGET', KEYS[st.h], id)
    r = v and cjson.decode(v) or false
  end
  return r
end

local function put(st, id, r)
  st.reservations[id] = r
  if not st.due or r[DEADLINE] < st.due then st.due = r[DEADLINE] end
  if not st.far or r[DEADLINE] > st.far then st.far = r[DEADLINE] end
end

-- shift_back moves every reservation back by a span, or forward if it is negative, like the
-- clock. It returns the ids of the reservations that expired, in order.
local function shift_back(st, back)
  local due = {}
  for _, id in ipairs(call('ZRANGE', KEYS[st.h + 1], '0', '-1')) do
    local r = find(st, id)
    if r then
      r[AT] = math.max(1, r[AT] - back)
      r[DEADLINE] = math.max(1, r[DEADLINE] - back)
      st.reservations[id] = r
      if r[DEADLINE] <= st.now then due[#due + 1] = id end
    end
  end
  st.far = st.far - back
  return due
end

local function place(st, r) return st.twin.settling and r[PLACE] or 0 end

-- give_back returns the tokens of a reservation at its deadline to the words s of st.
local function give_back(st, s, r)
  local p = st.twin.settling and st.twin.settling(st.p, r) or st.p
  return st.twin.decide(s, p, RETURN, r[DEADLINE], r[N], r[AT], place(st, r), 0)
end

-- origin adds to a reservation r of a tenant where its tokens are from.
local function origin(st, r, from)
  local p = st.p
  if st.twin.settling then r[6], r[7], r[8], r[9], r[10], r[11] = from, p[1], p[6], p[7], p[8], p[9] end
  return r
end

-- expire returns the tokens of the reservations that expired, each at its deadline, so the
-- result does not depend on when a request finds them; and deletes the reservations.
local function expire(st, h, back)
  use_reservations(st, h)
  local due, first
  if back ~= 0 then
    due = shift_back(st, back)
  else
    due = call('ZRANGEBYSCORE', KEYS[h + 1], micros(-st.now), micros(st.now))
  end
  -- A state that has refilled by now needs no tokens back, unless the limit counts from
  -- the first use of the key.
  local _, _, _, _, live = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  live = live > 0 or st.twin.primes
  for _, id in ipairs(due) do
    local r
    local v = live and back == 0 and call('HGET', KEYS[h], id)
    if back ~= 0 then
      r = st.reservations[id]
    elseif v and v:find(',-1,', 1, true) then -- not settled
      r = cjson.decode(v)
    end
    if live and r and r[ACTUAL] < 0 then
      local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, r[DEADLINE], 0, 0, 0, 0)
      if reset > 0 then give_back(st, st.s, r) end
    end
    st.reservations[id] = false
  end
  local from = st.now + back
  first = call('ZRANGEBYSCORE', KEYS[h + 1], '(' .. micros(from), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
  local settled = call('ZREVRANGEBYSCORE', KEYS[h + 1], '(' .. micros(-from), '-inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
  if settled and (not first or -settled < first + 0) then first = -settled end
  if first then
    st.due = first - back
  else
    st.due, st.far = nil, nil
  end
end

-- change runs the twin and, if it is OK, marks the state as changed.
local function change(st, op, n, at, id, ttl)
  local ok, granted, balance, retry, reset, delay, keep, place = st.twin.decide(st.s, st.p, op, st.now, n, at, id, ttl)
  if keep or ok and op ~= PEEK and (n > 0 or op > PEEK) then st.dirty, st.reset = true, reset end
  return ok and (place and place > 0 and 5 + place or 1) or 0, granted, balance, retry, reset, delay, st.now
end

-- look returns the current balance, with the given number of granted tokens.
local function look(st, granted)
  local _, _, balance, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  return 1, granted, balance, 0, reset, 0, st.now
end

local function unknown(st) return 2, 0, 0, 0, 0, 0, st.now end

-- give returns n tokens of a reservation. A full state needs none.
local function give(st, n, r)
  local _, _, _, _, reset = look(st, 0)
  if reset > 0 then
    change(st, RETURN, n, r[AT], place(st, r), 0)
  else
    st.dirty, st.reset = true, 0
  end
end

-- again makes the reply that of a repeated request.
local function again(_, ...) return 4, ... end

local function reserve(st, n, ttl, id)
  local r = find(st, id)
  if r then return again(look(st, r[N])) end
  local code, granted, balance, retry, reset, delay, now = change(st, TAKE, n, 0, 0, 0)
  if code > 0 then put(st, id, origin(st, { n, now, now + ttl, -1, 0 }, code > 1 and code - 5 or 0)) end
  return code, granted, balance, retry, reset, delay, now
end

-- settled returns the reply to a settlement: high in place of a delay.
local function settled(st, r)
  local code, granted, balance, retry, reset, _, now = look(st, r[ACTUAL])
  return code, granted, balance, retry, reset, r[HIGH], now
end

local function finish(st, n, actual, high, id)
  local r = find(st, id)
  if not r then return unknown(st) end
  if r[ACTUAL] >= 0 then return settled(st, r) end
  local tokens = r[N]
  r = { tokens, r[AT], r[DEADLINE], actual, high, unpack(r, PLACE) }
  put(st, id, r)
  if n < tokens then
    give(st, tokens - n, r)
  elseif n > tokens then
    change(st, CHARGE, n - tokens, 0, 0, 0)
  else
    local _, _, _, _, reset = look(st, 0)
    st.dirty, st.reset = true, reset
  end
  return settled(st, r)
end

-- clear resets st to the state of an unused key.
local function clear(st, h)
  use_reservations(st, h)
  st.s, st.reservations, st.wiped, st.due, st.far, st.ahead = {}, {}, true, nil, nil, nil
  st.dirty, st.reset = true, 0
end

-- apply decides a request after the carry-over.
local function apply(st, verb, n, x)
  if verb < RESET then return change(st, verb, n, x[2], x[4], 0) end
  if verb == RESET then
    clear(st, x[1])
    return look(st, 0)
  end
  if x[4] ~= 0 then -- a slot: it is in the state itself
    if verb == RESERVE then
      local _, _, left = look(st, 0)
      local code, granted, balance, retry, reset, delay, now = change(st, TAKE, n, 0, x[4], x[3])
      if code == 1 and balance == left then code = 4 end
      return code, granted, balance, retry, reset, delay, now
    end
    local _, freed, _, _, reset = st.twin.decide(st.s, st.p, RETURN, st.now, 0, 0, x[4], 0)
    if freed == 0 and verb ~= RETRACT then return unknown(st) end
    st.dirty, st.reset = true, reset
    return look(st, 0)
  end
  use_reservations(st, x[1])
  if verb == RETRACT then
    local r = find(st, ARGV[x[5]])
    if not r or r[ACTUAL] >= 0 then return look(st, 0) end
    st.reservations[ARGV[x[5]]] = false
    give(st, r[N], r)
    return look(st, 0)
  end
  if verb == RESERVE then return reserve(st, n, x[3], ARGV[x[5]]) end
  if verb == CANCEL then return finish(st, 0, 0, 0, ARGV[x[5]]) end
  return finish(st, n, x[2], x[3], ARGV[x[5]])
end

-- left returns the tokens of a new capacity for b tokens of an old one.
local function left(carry, b, old, new)
  if carry == PROPORTIONAL then
    local size = math.abs(b)
    if size * (new / old) > MAX_INSTANT / 2 then return b < 0 and -MAX_INSTANT or new end
    local whole, rest = use('emission').product(old, floor(new / old), new % old, size)
    if b >= 0 then return whole end
    return rest > 0 and -whole - 1 or -whole
  elseif carry == AS_IS then
    return math.min(b, new)
  elseif carry == ADDITIVE then
    return math.min(new, b + math.max(0, new - old))
  end
  return new
end

-- moved returns the state old under the rule of st, with entries of its own.
local function moved(st, old)
  if old.twin.detach then old.twin.detach(old.s) end
  local m = use('migrate')
  local s = m.migrate(old, old.s, st, st.now)
  if s == old.s then
    s = {}
    for i, v in pairs(old.s) do s[i] = type(v) == 'table' and { unpack(v) } or v end
  end
  return m.without_credit(st.name, s)
end

-- carried makes st, if it is that of an unused key, from the state of the first older limit
-- that has one. It returns that older state, which the caller clears, and the index of its
-- reservations; or nil, nil and an error.
local function carried(st, x, open)
  local _, _, _, _, reset = look(st, 0)
  if reset > 0 or st.due then return nil end
  for i = 8, #x, 4 do
    local old, err = st, nil
    if x[i] ~= st.key then old, err = open(x[i], x[i + 1], x[i + 2]) end
    if not old then return nil, nil, err end
    local _, _, balance, _, live = look(old, 0)
    if live > 0 then
      local owed = math.min(x[7] - left(x[6], balance, x[i + 3], x[7]), MAX_INSTANT)
      st.s = {}
      if x[6] == USAGE then
        st.s = moved(st, old)
      elseif st.twin.carried then
        st.twin.carried(st.s, st.p, st.now, owed)
      elseif owed > 0 then
        st.twin.decide(st.s, st.p, CHARGE, st.now, owed, 0, 0, 0)
      end
      return old, x[i + 2]
    end
  end
  return nil
end

-- carry carries a state and its reservations over, and marks both states as changed.
local function carry(st, x, open)
  local old, reservations = carried(st, x, open)
  if not old then return end
  st.ahead = st.ahead or old.ahead
  if old.due and x[6] ~= AFRESH then
    use_reservations(st, x[1])
    for _, id in ipairs(call('ZRANGE', KEYS[old.h + 1], '0', '-1')) do
      st.reservations[id] = find(old, id) or nil
    end
    for id, r in pairs(old.reservations) do
      if r then st.reservations[id] = r end
    end
    for _, r in pairs(st.reservations) do
      if r then origin(st, r, 0) end
    end
    st.due, st.far = old.due, old.far
  end
  clear(old, reservations)
  local _, _, _, _, reset = look(st, 0)
  st.dirty, st.reset = true, reset
end

-- holder returns the state that has the reservation or slot of a request: st, or that of an
-- older limit.
local function holder(st, x, open)
  local function has(state, reservations)
    if x[4] ~= 0 then return state.twin.has and state.twin.has(state.s, state.p, state.now, x[4]) end
    if state.twin.has then return false end
    use_reservations(state, reservations)
    return find(state, ARGV[x[5]])
  end
  if has(st, x[1]) then return st end
  for i = 8, #x, 4 do
    local old = x[i] ~= st.key and open(x[i], x[i + 1], x[i + 2])
    if old and has(old, x[i + 2]) then return old end
  end
  return st
end

-- opened returns a function that returns the open reservations of a state, one by one, in
-- order of their deadlines.
local function opened(st)
  local own = {}
  for _, r in pairs(st.reservations) do
    if r and r[ACTUAL] < 0 then own[#own + 1] = r end
  end
  table.sort(own, function(a, b) return a[DEADLINE] < b[DEADLINE] end)
  local ids, at, from, i = {}, 0, st.wiped and -1 or 0, 1
  local function head()
    while from >= 0 do
      while at < #ids do
        local v = st.reservations[ids[at + 1]] == nil and call('HGET', KEYS[st.h], ids[at + 1])
        if v and v:find(',-1,', 1, true) then return cjson.decode(v) end
        at = at + 1
      end
      ids = call('ZRANGEBYSCORE', KEYS[st.h + 1], '(' .. micros(st.now), '+inf', 'LIMIT', from, CHUNK)
      at, from = 0, #ids > 0 and from + CHUNK or -1
    end
  end
  return function()
    local r = head()
    if own[i] and (not r or own[i][DEADLINE] <= r[DEADLINE]) then
      i = i + 1
      return own[i - 1]
    end
    at = at + 1
    return r
  end
end

-- await is the twin of algo.Await: it returns the retry and the reset of a decision,
-- corrected for the reservations that return by themselves. They are those of from.
local function await(st, from, code, want, retry, reset)
  if type(code) == 'string' or code == 2 then return retry, reset end
  local now, p, decide = st.now, st.p, st.twin.decide
  local waits, n, s, next_open = code == 0 and retry ~= NEVER, 0, nil, nil
  while true do
    -- from.due is at most the first deadline: often nothing has to be read.
    local at, r = from.due, nil
    if next_open or waits and at < now + retry or at < now + reset then
      next_open = next_open or opened(from)
      r = next_open()
      if not r then return retry, reset end
      at = r[DEADLINE]
    end
    waits = waits and at < now + retry
    if not waits and at >= now + reset then return retry, reset end
    if waits and n == MANY_RETRY then return at - now, reset end
    if not waits and n >= MANY_RESET then return retry, reset end
    n = n + 1
    if not s then
      s = {}
      for name, v in pairs(st.s) do
        s[name] = v
        if type(v) == 'table' then
          s[name] = {}
          for j = 1, #v do s[name][j] = v[j] end
        end
      end
    end
    local _, _, _, _, live = decide(s, p, PEEK, at, 0, 0, 0, 0)
    if live > 0 then _, _, _, _, live = give_back(st, s, r) end
    reset = at + live - now
    if waits then
      local _, _, _, wait = decide(s, p, PEEK, at, want, 0, 0, 0)
      retry = at + wait - now
    end
  end
end

-- answer decides one request. A request that changes nothing sees the state that a
-- carry-over would make.
local function answer(st, verb, n, x, open)
  local before, old, err, _ = st.s, nil, nil, nil
  if x[8] and (verb == PEEK or n == 0 and verb < PEEK) then old, _, err = carried(st, x, open) end
  if err then return err, 0, 0, 0, 0, 0, st.now end
  if x[8] and verb >= COMMIT then st = holder(st, x, open) end
  local code, granted, balance, retry, reset, delay, now = apply(st, verb, n, x)
  if st.migrated and verb >= COMMIT and code == 1 then st.dirty, st.reset = true, reset end
  local from = old and x[6] ~= AFRESH and old or st
  if from.due then retry, reset = await(st, from, code, verb == TAKE_UP_TO and 1 or n, retry, reset) end
  if old then st.s = before end
  return code, granted, balance, retry, reset, delay, now
end

-- copy returns a copy of a state and its reservations.
local function copy(st)
  local c = {}
  for name, v in pairs(st) do c[name] = v end
  c.s = {}
  for i, v in pairs(st.s) do c.s[i] = type(v) == 'table' and { unpack(v) } or v end
  if st.reservations then
    c.reservations = {}
    for id, r in pairs(st.reservations) do c.reservations[id] = r end
  end
  return c
end

-- write stores the reservations of st with the TTL of its state, in ms. A reservation that
-- is not settled is returned by the first request after its deadline.
local function write(st, ttl)
  local h, d = KEYS[st.h], KEYS[st.h + 1]
  if st.wiped then call('DEL', h, d) end
  local over = {}
  for id, r in pairs(st.reservations) do
    if r then
      local v = {}
      for i = 1, #r do v[i] = micros(r[i]) end
      call('HSET', h, id, '[' .. table.concat(v, ',') .. ']')
      call('ZADD', d, micros(r[ACTUAL] < 0 and r[DEADLINE] or -r[DEADLINE]), id)
    else
      over[#over + 1] = id
    end
  end
  for from = 1, #over, MANY do
    local to = math.min(from + MANY - 1, #over)
    call('HDEL', h, unpack(over, from, to))
    call('ZREM', d, unpack(over, from, to))
  end
  if st.due then
    call('PEXPIRE', h, ttl)
    call('PEXPIRE', d, ttl)
  end
end

return { rest = rest, use = use_reservations, expire = expire, carry = carry, answer = answer, await = await, copy = copy, write = write }
