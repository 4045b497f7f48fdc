-- Twin of internal/algo/tenant_bucket.go and tenants.go, where the idea and the formulas are.
--
-- State: s[1] µs, s[2] level of the pool, s[3] rates of the full children, s[4] what the
-- children lack, s[5] rest of a division, s[6] G, s[7] weights of the credits that are not full,
-- s[8] what these lack.
-- Params: fingerprint, unit, rate, burst and pool of the parent; ID, rate, burst and weight of
-- the child, of which the ID is 0 for no child of this parent, and the weight 0 if surplus is
-- first come, first served. In a call that repeats one with the code 5, ID, rate, burst and
-- weight of every child follow.
--
-- The key is a sorted set, so that a decision reads only the children that it is about. Its
-- first member, with the score -inf, is the head, as in sliding_log.lua. A child that is not full
-- has the member f:ID:RATE:BURST:WEIGHT, whose score is the instant at which it is full. A credit
-- that is not full has a member h:… with the score -1 - G. The members x:ID and y:ID have what is
-- then above the burst, as a score below all others; without one it is 0.
--
-- Changes are in s until save: s['f' .. id], s['x' .. id], s['h' .. id] and s['y' .. id], 0 if
-- full, and s['n' .. id] with ID:RATE:BURST:WEIGHT.

local call, format, floor, max, min = redis.call, string.format, math.floor, math.max, math.min
local NOW, LEVEL, IDLE, LACKS, REST, GIVEN, AWAIT, OWED = 1, 2, 3, 4, 5, 6, 7, 8
local UNIT, RATE, BURST, POOL, ID, WEIGHT = 2, 3, 4, 5, 6, 9

local MOST = 1125899906842624 -- 2^50 units
local MOST_TENANTS = 1000
local FAR = 2251799813685248 -- 2^51
local BELOW = 4503599627370498 -- 2^52 + 2, below the scores of credits
local CHUNK = 16

local function ceil_div(a, b) return floor((a + b - 1) / b) end

local function text(v) return format('%.0f', v) end

local function own(s, id, value) return s[value .. text(id)] end

-- get returns the value f or h of a child, 0 if it is full, and x or y.
local function get(s, f, x, id, name)
  local v = own(s, id, f)
  if v then return v, own(s, id, x) end
  v = s.key and call('ZSCORE', s.key, f .. ':' .. name)
  if not v then return 0, 0 end
  local over = call('ZSCORE', s.key, x .. ':' .. text(id))
  v = v + 0
  return f == 'h' and -1 - v or v, over and -BELOW - over or 0
end

local function set(s, f, x, id, name, v, over)
  id = text(id)
  s[f .. id], s[x .. id], s['n' .. id] = v, over, name
end

local function name_of(id, rate, burst, weight) return format('%.0f:%.0f:%.0f:%.0f', id, rate, burst, weight) end

-- ordered returns a function that returns the value, name, ID, rate, burst and weight of the
-- children that are not full, one by one, in order of their values f up to most, or h.
local function ordered(s, f, most)
  local mine, i = {}, 1
  for field, v in pairs(s) do
    if type(v) == 'number' and v > 0 and type(field) == 'string' and field:sub(1, 1) == f then
      mine[#mine + 1] = { v, s['n' .. field:sub(2)] }
    end
  end
  table.sort(mine, function(a, b) return a[1] < b[1] end)
  local read, at, from = {}, 1, s.key and 0 or -1
  local function stored()
    while true do
      if at > #read then
        if from < 0 then return nil end
        if f == 'f' then
          read = call('ZRANGEBYSCORE', s.key, '(0', most, 'WITHSCORES', 'LIMIT', from, CHUNK)
        else
          read = call('ZREVRANGEBYSCORE', s.key, '-1', '-4503599627370497', 'WITHSCORES', 'LIMIT', from, CHUNK)
        end
        at, from = 1, #read < 2 * CHUNK and -1 or from + CHUNK
        if #read == 0 then return nil end
      end
      local name = read[at]:sub(3)
      if s[f .. name:match('^%d+')] == nil then
        local v = read[at + 1] + 0
        return f == 'h' and -1 - v or v, name
      end
      at = at + 2
    end
  end
  return function()
    local v, name = stored()
    if mine[i] and (not v or mine[i][1] <= v) then
      v, name = mine[i][1], mine[i][2]
      i = i + 1
    else
      at = at + 2
    end
    if not v then return nil end
    local id, rate, burst, weight = name:match('^(%d+):(%d+):(%d+):(%d+)$')
    return v, name, id + 0, rate + 0, burst + 0, weight + 0
  end
end

-- last returns the last instant at which a child is full; 0 if all are.
local function last(s)
  local v = 0
  for field, f in pairs(s) do
    if type(f) == 'number' and f > v and type(field) == 'string' and field:sub(1, 1) == 'f' then v = f end
  end
  local from = 0
  while s.key do
    local e = call('ZREVRANGEBYSCORE', s.key, '+inf', '(0', 'WITHSCORES', 'LIMIT', from, 1)
    if not e[1] then break end
    if s['f' .. e[1]:match('^f:(%d+)')] == nil then return max(v, e[2] + 0) end
    from = from + 1
  end
  return v
end

-- room returns the surplus that the credits and the pool have room for.
local function room(s, p) return p[POOL] - s[LEVEL] + s[OWED] - s[REST] end

local function missing(s, p) return s[LACKS] + room(s, p) end

local function left(s, p) return max(0, last(s) - s[NOW], ceil_div(missing(s, p), p[RATE])) end

-- flow divides surplus, at most the room, by weight among the credits that are not full, or gives
-- it to the pool.
local function flow(s, surplus)
  local rest = s[REST] + surplus
  if rest >= s[OWED] then
    if s[AWAIT] > 0 then
      local next_due = ordered(s, 'h')
      for _, name, id in next_due do set(s, 'h', 'y', id, name, 0, 0) end
    end
    s[LEVEL] = s[LEVEL] + rest - s[OWED]
    s[REST], s[GIVEN], s[AWAIT], s[OWED] = 0, 0, 0, 0
    return
  end
  if rest < s[AWAIT] then
    s[REST] = rest
    return
  end
  local next_due = ordered(s, 'h')
  local due, name, id, _, _, weight = next_due()
  while true do
    local steps, k = floor(rest / s[AWAIT]), due - s[GIVEN]
    k = min(k, steps)
    s[GIVEN], s[OWED], rest = s[GIVEN] + k, s[OWED] - k * s[AWAIT], rest - k * s[AWAIT]
    if due > s[GIVEN] then break end
    while due == s[GIVEN] do
      local _, over = get(s, 'h', 'y', id, name)
      rest, s[OWED], s[AWAIT] = rest + over, s[OWED] + over, s[AWAIT] - weight
      set(s, 'h', 'y', id, name, 0, 0)
      due, name, id, _, _, weight = next_due()
    end
  end
  s[REST] = rest
  if s[GIVEN] > FAR then
    local all = {}
    for h, n, i in ordered(s, 'h') do all[#all + 1] = { h, n, i } end
    for _, e in ipairs(all) do
      local _, over = get(s, 'h', 'y', e[3], e[2])
      set(s, 'h', 'y', e[3], e[2], e[1] - s[GIVEN], over)
    end
    s[GIVEN] = 0
  end
end

-- advance brings s forward to t. It reports whether a child became full.
local function advance(s, p, t)
  if not s[NOW] or t <= s[NOW] then return false end
  local surplus, space, filled = 0, room(s, p), false
  local function pass(to)
    local d, idle = to - s[NOW], s[IDLE]
    if idle > 0 then
      if d >= ceil_div(space - surplus, idle) then surplus = space else surplus = surplus + idle * d end
    end
    if s[LACKS] > 0 then s[LACKS] = s[LACKS] - (p[RATE] - idle) * d end
    s[NOW] = to
  end
  for f, name, id, rate in ordered(s, 'f', text(t)) do
    if f > t then break end
    pass(f)
    local _, over = get(s, 'f', 'x', id, name)
    surplus = min(space, surplus + over)
    s[LACKS], s[IDLE] = s[LACKS] + over, s[IDLE] + rate
    set(s, 'f', 'x', id, name, 0, 0)
    filled = true
  end
  pass(t)
  flow(s, surplus)
  return filled
end

local function lack(s, id, rate, name)
  local f, over = get(s, 'f', 'x', id, name)
  return f == 0 and 0 or rate * (f - s[NOW]) - over
end

local function set_lack(s, id, rate, name, units)
  local was = lack(s, id, rate, name)
  if was == 0 and units > 0 then
    s[IDLE] = s[IDLE] - rate
  elseif was > 0 and units == 0 then
    s[IDLE] = s[IDLE] + rate
  end
  s[LACKS] = s[LACKS] + units - was
  local d = ceil_div(units, rate)
  set(s, 'f', 'x', id, name, units > 0 and s[NOW] + d or 0, rate * d - units)
end

local function credit_lack(s, id, weight, name)
  local h, over = get(s, 'h', 'y', id, name)
  return h == 0 and 0 or weight * (h - s[GIVEN]) - over
end

local function set_credit_lack(s, id, weight, name, units)
  local was = credit_lack(s, id, weight, name)
  if was == 0 and units > 0 then
    s[AWAIT] = s[AWAIT] + weight
  elseif was > 0 and units == 0 then
    s[AWAIT] = s[AWAIT] - weight
  end
  s[OWED] = s[OWED] + units - was
  local d = ceil_div(units, weight)
  set(s, 'h', 'y', id, name, units > 0 and s[GIVEN] + d or 0, weight * d - units)
end

local function decide(s, p, op, now, n, at, place)
  local unit, id, rate, burst, weight = p[UNIT], p[ID], p[7], p[8], p[WEIGHT]
  local name = name_of(id, rate, burst, weight)
  local t = now
  if s[NOW] and s[NOW] > 0 then
    advance(s, p, now)
    t = s[NOW]
  else
    s[NOW], s[LEVEL], s[IDLE], s[LACKS], s[REST], s[GIVEN], s[AWAIT], s[OWED] = now, p[POOL], p[RATE], 0, 0, 0, 0, 0
  end
  local lacks, owes = 0, 0
  if id > 0 then
    lacks = lack(s, id, rate, name)
    if weight > 0 then owes = credit_lack(s, id, weight, name) end
  end
  local level, credit = id > 0 and burst - lacks or 0, weight > 0 and burst - owes or 0
  local fits, lent, pool = 0, 0, 0
  if level >= 0 then fits, lent, pool = floor(level / unit), floor(credit / unit), floor(s[LEVEL] / unit) end
  local ok, granted, retry, from, asked = true, 0, 0, 0, n
  local most = max(fits, lent, pool)
  if op == TAKE or op == PEEK then
    ok = n == 0 or n <= most
  elseif op == TAKE_UP_TO then
    n = min(n, most)
    if n == 0 and asked > 0 then ok, n = false, 1 end
  elseif op == CHARGE then
    n = min(n, floor(max(0, 2 * MOST - missing(s, p)) / unit))
  else
    n = min(n, ceil_div(missing(s, p), unit))
  end
  if ok and op ~= RETURN and n > fits then
    if n <= lent then from = 1 elseif n <= pool then from = 2 end
  end
  if op ~= PEEK and ok then
    local units = n * unit
    if op == RETURN then
      local back = 0
      if place == 2 then
        back = min(units, p[POOL] - s[LEVEL])
        s[LEVEL] = s[LEVEL] + back
      elseif id > 0 and place == 1 and weight > 0 then
        back = min(units, owes)
        owes = owes - back
        set_credit_lack(s, id, weight, name, owes)
      elseif id > 0 and place == 0 then
        back = min(units, lacks)
        lacks = lacks - back
        set_lack(s, id, rate, name, lacks)
      end
      flow(s, min(units - back, room(s, p)))
      if id > 0 and weight > 0 then owes = credit_lack(s, id, weight, name) end
    elseif n > 0 then
      if from == 2 then
        s[LEVEL] = s[LEVEL] - units
      elseif from == 1 then
        owes = owes + units
        set_credit_lack(s, id, weight, name, owes)
      else
        lacks = lacks + units
        set_lack(s, id, rate, name, lacks)
      end
    end
    if op == CHARGE then granted = asked elseif op ~= RETURN then granted = n end
    level, credit = id > 0 and burst - lacks or 0, weight > 0 and burst - owes or 0
  end
  local balance = floor(level / unit)
  if level >= 0 then balance = balance + floor(credit / unit) + floor(s[LEVEL] / unit) end
  local reset = 0
  if missing(s, p) > 0 then reset = t - now + left(s, p) end
  if not ok then
    if n <= floor(burst / unit) then
      retry = t - now + ceil_div(n * unit - level, rate)
    elseif n <= floor(p[POOL] / unit) then
      retry = reset
    else
      retry = NEVER
    end
  end
  return ok, granted, balance, retry, reset, 0, nil, from
end

-- migrate returns the state s of a parent p as a state of another parent q.
local function migrate(s, p, q, now)
  local mulmod = use('migrate').mulmod
  local function converted(level, least)
    if p[UNIT] == q[UNIT] then return level end
    local tokens = floor(level / p[UNIT])
    local part = mulmod(level - tokens * p[UNIT], q[UNIT], p[UNIT])
    return min(max(tokens, -floor(least / q[UNIT])), floor(MOST / q[UNIT])) * q[UNIT] + part
  end
  advance(s, p, now)
  local levels = {}
  for f, name, id, rate, burst in ordered(s, 'f', '+inf') do
    local _, over = get(s, 'f', 'x', id, name)
    levels[id] = converted(burst - (rate * (f - s[NOW]) - over), floor(MOST / MOST_TENANTS))
  end
  local rest = converted(p[BURST] - missing(s, p), 2 * MOST)
  local u = { s[NOW], 0, q[RATE], 0, 0, 0, 0, 0 }
  local lacks = {}
  for i = 10, #q, 4 do
    local id, burst = q[i], q[i + 2]
    lacks[i] = burst
    if levels[id] then
      lacks[i] = burst - min(levels[id], burst)
      rest = rest - min(levels[id], burst)
    end
    if q[i + 3] > 0 then set_credit_lack(u, id, q[i + 3], name_of(id, q[i + 1], burst, q[i + 3]), burst) end
  end
  local function fill(listed)
    for i = 10, #q, 4 do
      if (levels[q[i]] ~= nil) == listed then
        local more = max(0, min(lacks[i], rest))
        lacks[i], rest = lacks[i] - more, rest - more
      end
    end
  end
  fill(false)
  local surplus = max(0, min(rest, room(u, q)))
  flow(u, surplus)
  rest = rest - surplus
  fill(true)
  for i = 10, #q, 4 do
    set_lack(u, q[i], q[i + 1], name_of(q[i], q[i + 1], q[i + 2], q[i + 3]), lacks[i])
  end
  return missing(u, q) > 0 and u or {}
end

local function shift(s, p, d)
  if not s[NOW] or s[NOW] <= 0 then return end
  d = min(d, s[NOW] - 1)
  local all = {}
  for f, name, id in ordered(s, 'f', '+inf') do all[#all + 1] = { f, name, id } end
  for _, e in ipairs(all) do
    local _, over = get(s, 'f', 'x', e[3], e[2])
    set(s, 'f', 'x', e[3], e[2], e[1] - d, over)
  end
  s[NOW] = s[NOW] - d
end

-- settling returns the params for the tokens of a reservation r: those of its child or, if the
-- parent has changed since, of none.
local function settling(p, r)
  local q = { p[1], p[2], p[3], p[4], p[5], 0, 1, 0, 0 }
  if r[7] == p[1] then q[6], q[7], q[8], q[9] = r[8], r[9], r[10], r[11] end
  return q
end

-- load returns the head of the state at key, or false, or an error.
local function load(key)
  local e = redis.pcall('ZRANGE', key, 0, 0)
  if e.err then return e end
  return e[1] or false
end

-- save writes the changes of s and the new head, with a TTL in ms.
local function save(key, s, head, ttl)
  local gone, come = { s.head }, { '-inf', head }
  local function change(member, score)
    if score then
      come[#come + 1], come[#come + 2] = text(score), member
    elseif s.key then
      gone[#gone + 1] = member
    end
  end
  for field, v in pairs(s) do
    if type(v) == 'number' and type(field) == 'string' then
      local f, id = field:sub(1, 1), field:sub(2)
      if f == 'x' or f == 'y' then
        change(f .. ':' .. id, v > 0 and -BELOW - v)
      else
        change(f .. ':' .. s['n' .. id], v > 0 and (f == 'h' and -1 - v or v))
      end
    end
  end
  if not s.key then call('DEL', key) end
  for i = 1, #gone, 1000 do call('ZREM', key, unpack(gone, i, min(i + 999, #gone))) end
  for i = 1, #come, 1000 do call('ZADD', key, unpack(come, i, min(i + 999, #come))) end
  call('PEXPIRE', key, ttl)
end

return {
  decide = decide, shift = shift, load = load, save = save, advance = advance, migrate = migrate, settling = settling,
}
