-- Reservations: holds that give back by themselves; and the other rare requests,
-- Reset and those that carry a state over from an older limit.
--
-- A hold is [n, at, deadline, actual, high] in the hash at KEYS[h] under the id of its
-- reservation, and its deadline is the score of its id in the sorted set at
-- KEYS[h + 1]. actual is what it was settled at, or -1; beyond 2^53 its
-- higher bits are in high. Settled or not it stays until its deadline, so that
-- asking again is answered as the first time.
--
-- The rest of a request is a JSON array in ARGV: [holds, at, ttl, id, name, carry,
-- capacity, then four numbers per limit that used to govern the key]
--   holds     index in KEYS of its holds, or 0
--   at        Return: instant of the charge, µs; 0: the newest. Commit: actual
--   ttl       Reserve: µs. Commit: high
--   id        number of a concurrency slot; 0: none
--   name      index in ARGV of the reservation's id; 0: none
--   carry     weir.Carry
--   capacity  of the rule
--   key, rule, holds, capacity of an older limit

local call, format, floor = redis.call, string.format, math.floor
local N, AT, DEADLINE, ACTUAL, HIGH = 1, 2, 3, 4, 5
local PROPORTIONAL, AS_IS, ADDITIVE = 0, 1, 2

local function rest(more) return cjson.decode(ARGV[more]) end

local function micros(v) return format('%d', v) end

-- MANY is how many ids go with one command of Redis.
local MANY = 1000

-- use_holds makes st ready to read and change its holds. Changes stay in
-- st.holds until they are written; false is a hold to delete.
local function use_holds(st, h)
  if not st.h then st.h, st.holds = h, {} end
end

local function find(st, id)
  local hold = st.holds[id]
  if hold == nil and not st.wiped then
    local v = call('HGET', KEYS[st.h], id)
    hold = v and cjson.decode(v) or false
  end
  return hold
end

local function put(st, id, hold)
  st.holds[id] = hold
  if not st.due or hold[DEADLINE] < st.due then st.due = hold[DEADLINE] end
  if not st.far or hold[DEADLINE] > st.far then st.far = hold[DEADLINE] end
end

-- ahead is how the clock was found to run ahead by back: every hold moves along.
-- It gives the ids of those that are due, in order.
local function ahead(st, back)
  local due = {}
  for _, id in ipairs(call('ZRANGE', KEYS[st.h + 1], '0', '-1')) do
    local hold = find(st, id)
    if hold then
      hold[AT] = math.max(1, hold[AT] - back)
      hold[DEADLINE] = math.max(1, hold[DEADLINE] - back)
      st.holds[id] = hold
      if hold[DEADLINE] <= st.now then due[#due + 1] = id end
    end
  end
  st.far = st.far - back
  return due
end

-- settle gives the tokens of the holds back that are due, each at its deadline,
-- so that nobody can tell when it was noticed; and forgets them.
local function settle(st, h, back)
  use_holds(st, h)
  local due, first
  if back > 0 then
    due = ahead(st, back)
  else
    due = call('ZRANGEBYSCORE', KEYS[h + 1], '-inf', micros(st.now))
  end
  -- To a state that is over by now nothing needs to go back; but a key whose limit
  -- counts from its first sight is known for longer.
  local _, _, _, _, live = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  live = live > 0 or st.twin.sights
  for _, id in ipairs(due) do
    local hold
    local v = live and back == 0 and call('HGET', KEYS[h], id)
    if back > 0 then
      hold = st.holds[id]
    elseif v and v:find(',-1,', 1, true) then -- not settled
      hold = cjson.decode(v)
    end
    if live and hold and hold[ACTUAL] < 0 then
      local _, _, _, _, reset = st.twin.decide(st.s, st.p, PEEK, hold[DEADLINE], 0, 0, 0, 0)
      if reset > 0 then st.twin.decide(st.s, st.p, RETURN, hold[DEADLINE], hold[N], hold[AT], 0, 0) end
    end
    st.holds[id] = false
  end
  first = call('ZRANGEBYSCORE', KEYS[h + 1], '(' .. micros(st.now + back), '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
  if first then
    st.due = first - back
  else
    st.due, st.far = nil, nil
  end
end

-- change asks the twin and, if it agrees, marks the state as changed.
local function change(st, op, n, at, id, ttl)
  local ok, granted, balance, retry, reset, delay, keep = st.twin.decide(st.s, st.p, op, st.now, n, at, id, ttl)
  if keep or ok and op ~= PEEK and (n > 0 or op > PEEK) then st.dirty, st.reset = true, reset end
  return ok and 1 or 0, granted, balance, retry, reset, delay, st.now
end

-- look is how things stand, with so many tokens granted.
local function look(st, granted)
  local _, _, balance, _, reset = st.twin.decide(st.s, st.p, PEEK, st.now, 0, 0, 0, 0)
  return 1, granted, balance, 0, reset, 0, st.now
end

local function unknown(st) return 2, 0, 0, 0, 0, 0, st.now end

-- give gives n tokens back that were charged at an instant. A state that is as if
-- never used has them already.
local function give(st, n, at)
  local _, _, _, _, reset = look(st, 0)
  if reset > 0 then
    change(st, RETURN, n, at, 0, 0)
  else
    st.dirty, st.reset = true, 0
  end
end

-- again is an answer that is OK because it was before.
local function again(_, ...) return 4, ... end

local function reserve(st, n, ttl, id)
  local hold = find(st, id)
  if hold then return again(look(st, hold[N])) end
  local code, granted, balance, retry, reset, delay, now = change(st, TAKE, n, 0, 0, 0)
  if code == 1 then put(st, id, { n, now, now + ttl, -1, 0 }) end
  return code, granted, balance, retry, reset, delay, now
end

-- settled is the answer to a settlement: high in place of a delay.
local function settled(st, hold)
  local code, granted, balance, retry, reset, _, now = look(st, hold[ACTUAL])
  return code, granted, balance, retry, reset, hold[HIGH], now
end

local function finish(st, n, actual, high, id)
  local hold = find(st, id)
  if not hold then return unknown(st) end
  if hold[ACTUAL] >= 0 then return settled(st, hold) end
  local tokens = hold[N]
  hold = { tokens, hold[AT], hold[DEADLINE], actual, high }
  put(st, id, hold)
  if n < tokens then
    give(st, tokens - n, hold[AT])
  elseif n > tokens then
    change(st, CHARGE, n - tokens, 0, 0, 0)
  else
    local _, _, _, _, reset = look(st, 0)
    st.dirty, st.reset = true, reset
  end
  return settled(st, hold)
end

-- forget makes st as if never used.
local function forget(st, h)
  use_holds(st, h)
  st.s, st.holds, st.wiped, st.due, st.far = {}, {}, true, nil, nil
  st.dirty, st.reset = true, 0
end

-- act is what is asked, without what is carried over.
local function act(st, verb, n, x)
  if verb < RESET then return change(st, verb, n, x[2], 0, 0) end
  if verb == RESET then
    forget(st, x[1])
    return look(st, 0)
  end
  if x[4] ~= 0 then -- a slot: the state itself remembers it
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
  use_holds(st, x[1])
  if verb == RETRACT then
    local hold = find(st, ARGV[x[5]])
    if not hold or hold[ACTUAL] >= 0 then return look(st, 0) end
    st.holds[ARGV[x[5]]] = false
    give(st, hold[N], hold[AT])
    return look(st, 0)
  end
  if verb == RESERVE then return reserve(st, n, x[3], ARGV[x[5]]) end
  if verb == CANCEL then return finish(st, 0, 0, 0, ARGV[x[5]]) end
  return finish(st, n, x[2], x[3], ARGV[x[5]])
end

-- left is how many of b tokens of an old capacity a new one starts with.
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

-- carried brings the state of the first older limit that has one over into st,
-- if st has none. It gives that older state, which is to be forgotten, and where
-- its holds are; or nil, nil and a problem if there is one.
local function carried(st, x, open)
  local _, _, _, _, reset = look(st, 0)
  if reset > 0 or st.due then return nil end
  for i = 8, #x, 4 do
    local old, problem = st, nil
    if x[i] ~= st.key then old, problem = open(x[i], x[i + 1], x[i + 2]) end
    if not old then return nil, nil, problem end
    local _, _, balance, _, live = look(old, 0)
    if live > 0 then
      st.s = {}
      local owed = math.min(x[7] - left(x[6], balance, x[i + 3], x[7]), MAX_INSTANT)
      if st.twin.carried then
        st.twin.carried(st.s, st.p, st.now, owed)
      elseif owed > 0 then
        st.twin.decide(st.s, st.p, CHARGE, st.now, owed, 0, 0, 0)
      end
      return old, x[i + 2]
    end
  end
  return nil
end

-- carry is carried, to stay.
local function carry(st, x, open)
  local old, holds = carried(st, x, open)
  if not old then return end
  forget(old, holds)
  local _, _, _, _, reset = look(st, 0)
  st.dirty, st.reset = true, reset
end

-- answer decides one request. One that can change nothing carries nothing over:
-- it only sees what would be.
local function answer(st, verb, n, x, open)
  local before, old, problem, _ = st.s, nil, nil, nil
  if x[8] and (verb == PEEK or n == 0 and verb < PEEK) then old, _, problem = carried(st, x, open) end
  if problem then return problem, 0, 0, 0, 0, 0, st.now end
  local code, granted, balance, retry, reset, delay, now = act(st, verb, n, x)
  if old then st.s = before end
  return code, granted, balance, retry, reset, delay, now
end

-- copy is a copy of a state and its holds.
local function copy(st)
  local c = {}
  for name, v in pairs(st) do c[name] = v end
  c.s = {}
  for i, v in pairs(st.s) do c.s[i] = type(v) == 'table' and { unpack(v) } or v end
  if st.holds then
    c.holds = {}
    for id, hold in pairs(st.holds) do c.holds[id] = hold end
  end
  return c
end

-- write stores what became of the holds of st, to live for ttl ms as its state does:
-- what was not settled goes back whenever that is noticed.
local function write(st, ttl)
  local h, d = KEYS[st.h], KEYS[st.h + 1]
  if st.wiped then call('DEL', h, d) end
  local over = {}
  for id, hold in pairs(st.holds) do
    if hold then
      call('HSET', h, id, format('[%d,%d,%d,%d,%d]', hold[N], hold[AT], hold[DEADLINE], hold[ACTUAL], hold[HIGH]))
      call('ZADD', d, micros(hold[DEADLINE]), id)
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

return { rest = rest, use_holds = use_holds, settle = settle, carry = carry, answer = answer, copy = copy, write = write }
