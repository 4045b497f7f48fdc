-- The queue: follows common.lua in the scripts that read or change tickets.

-- The numbers of sale.ReclaimFor, sale.PollInterval and sale.Grace, in ms.
local RECLAIM, TURN_POLL = 600000, 1000

-- interval returns when a waiting ticket with so many ahead polls again.
local function interval(ahead)
  if ahead < 200 then return 1000 end
  if ahead < 2200 then return 5000 end
  return math.max(10000, math.floor((redis.call('ZCARD', LINE) - 1) / 10))
end

local function grace(poll) return 3 * poll + 2000 end

-- situation returns what a ticket is now: its place; g if it is absent; p if it is over.
local function situation(s, u)
  if u.place ~= 'w' and u.place ~= 'a' then return u.place end
  local till, seen = tonumber(u.till), tonumber(u.seen)
  if u.place == 'a' and s.now >= till and (seen == 0 or till <= seen) then return 'p' end
  if seen ~= 0 and s.now >= seen + RECLAIM then return 'p' end
  if seen ~= 0 and s.now >= seen then return 'g' end
  return u.place
end

-- park removes up to max absent tickets from the queue. It needs the field "left".
local function park(s, max)
  local gone = redis.call('ZRANGEBYSCORE', SEEN, '-inf', num(s.now), 'LIMIT', 0, max)
  if #gone == 0 then return end
  s.left = s.left + #gone
  redis.call('HSET', STATE, 'left', num(s.left), 'clock', s.clock)
  redis.call('ZREM', LINE, unpack(gone))
  redis.call('ZREM', SEEN, unpack(gone))
end

-- limited reports whether a user cannot reserve the quantity of a request. It needs bound.
local function limited(s, u)
  return holds(holding(u)) + s.quantity > s.max_units or tonumber(u.returned) >= s.max_unpaid
end

-- bound sets the quantity of a request, and what bounds the units of its user: how many returned
-- reservations are too many, and how many units the user may hold, 0 for as many as any user.
local function bound(s, unpaid, max, quantity)
  s.max_unpaid, max, s.quantity = tonumber(unpaid), tonumber(max), tonumber(quantity)
  s.max_units = max > 0 and math.min(max, s.per_user) or s.per_user
end

local LAST = 9007199254740992 -- 2^53: beyond it a score is not exact

-- unused returns the first free rank from the given one on, or nil.
local function unused(rank)
  while rank <= LAST do
    local taken = redis.call('ZRANGEBYSCORE', LINE, num(rank), '(+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    for i = 2, #taken, 2 do
      if tonumber(taken[i]) ~= rank then return rank end
      if rank >= LAST then return nil end
      rank = rank + 1
    end
    if #taken < 200 then return rank end
  end
end

-- standing is where a user stands: {'ok', now, reason, place, ticket, rank, ahead, batch,
-- until, when to poll, changes (1 if it was restored, plus 2 if it was admitted, or has reserved
-- from the queue), and the ID and the record of what the ticket reserved (twice empty if nothing), and of each that the user holds}.
local function standing(s, name, u, reason, changes)
  local function record(id)
    return s.taken == id and s.record or redis.call('HGET', RES, id)
  end
  local place, ahead, poll, last = situation(s, u), 0, 0, ''
  if place == 'w' then
    ahead = redis.call('ZRANK', LINE, name) or 0
    poll = interval(ahead)
  elseif place == 'g' then
    ahead = redis.call('ZCOUNT', LINE, '-inf', '(' .. u.rank)
    poll = interval(ahead)
  elseif place == 'a' then
    poll = TURN_POLL
  elseif place == 's' then
    last = u.last
  end
  local r = {'ok', s.clock, reason, place, u.ticket, u.rank, num(ahead), u.batch,
    u.till, num(poll), num(changes or 0), last, last ~= '' and record(last) or ''}
  for _, id in ipairs(holding(u)) do
    r[#r + 1] = id
    r[#r + 1] = record(id)
  end
  return r
end

-- take reserves the quantity for a waiting or admitted ticket, and writes the entry of the stream.
-- It stores the user. It returns the record, or nil if there is a reservation of this ID already.
-- A ticket whose place is "n" is new and not in the queue; its rank becomes that of the newest.
local function take(s, name, u, id, key)
  local held = holding(u)
  local record = table.concat({'h', slot_of(unused_slot(held), s.quantity), num(s.now), num(s.now + s.pay), ARGV[1], name, u.ticket, key}, ' ')
  if redis.call('HSETNX', RES, id, record) == 0 then return nil end
  if u.place == 'n' then
    redis.call('HSET', STATE, 'free', num(s.free - s.quantity), 'reserved', num(s.reserved + s.quantity), 'clock', s.clock, 'top', num(s.top))
  else
    redis.call('HSET', STATE, 'free', num(s.free - s.quantity), 'reserved', num(s.reserved + s.quantity), 'clock', s.clock)
  end
  local ticketed = 't ' .. name .. ' ' .. u.ticket
  if key ~= '' then
    redis.call('HSET', DONE, ticketed, id, 'k ' .. name .. ' ' .. key, id)
  else
    redis.call('HSET', DONE, ticketed, id)
  end
  if u.place == 'w' then
    redis.call('ZREM', LINE, name)
    redis.call('ZREM', SEEN, name)
  elseif u.place == 'a' then
    redis.call('ZREM', OUT, name)
  end
  held[#held + 1] = id
  u.place, u.last, u.held, u.seen = 's', id, table.concat(held, ','), '0'
  keep(name, u)
  redis.call('XADD', STREAM, '*', 'r', id .. ' ' .. record)
  s.taken, s.record = id, record
  return record
end

-- outstanding returns how many admissions are valid and unused.
local function outstanding(s)
  return redis.call('ZCOUNT', OUT, '(' .. num(s.now), '(+inf')
end

-- openings returns how many tickets, the first ones, can reserve or be admitted now: as many as the
-- stream has room for. backlog is the bound on the stream, or 0.
local function openings(s, backlog)
  if s.paused == 1 or s.now < s.starts or s.now >= s.ends or s.free <= 0 then return 0 end
  return backlog == 0 and math.huge or backlog - redis.call('XLEN', STREAM)
end

-- yield makes a waiting or absent ticket absent from now on, at a rank. parked says that it was not
-- in the queue.
local function yield(s, name, u, rank, parked)
  if not parked or u.place ~= 'w' then
    s.left = s.left + 1
    redis.call('HSET', STATE, 'left', num(s.left), 'clock', s.clock)
  end
  u.place, u.batch, u.till, u.rank, u.seen = 'w', '', '0', num(rank), num(s.now)
  keep(name, u)
  redis.call('ZREM', LINE, name)
  redis.call('ZREM', SEEN, name)
  redis.call('ZREM', OUT, name)
end

-- visit makes a waiting or admitted ticket present and does what its turn allows. id is the
-- reservation to make, or empty; backlog the bound on the stream, or 0. It needs the fields
-- "paused", "free", "reserved", "turns", "left" and "fixed".
-- Returns: a standing, or the reason of a state that is gone.
local function visit(s, name, u, id, backlog)
  local at = situation(s, u)
  if at ~= 'w' and at ~= 'g' and at ~= 'a' or u.place == 'a' and u.seen == '0' and id == '' then
    return standing(s, name, u, '')
  end
  if limited(s, u) then return standing(s, name, u, 'per_user') end
  local rank, ahead, parked = tonumber(u.rank), 0, false
  if at == 'g' then
    parked = not redis.call('ZSCORE', LINE, name)
    if parked then rank = unused(rank) end
    if not rank then return standing(s, name, u, 'queue_full') end
    ahead = redis.call('ZCOUNT', LINE, '-inf', '(' .. num(rank))
  elseif at == 'w' then
    ahead = redis.call('ZRANK', LINE, name)
  end
  local turn, few = false, false
  if ahead < openings(s, backlog) then
    if id ~= '' then
      turn = ahead + s.quantity <= s.free
      few = ahead == 0 and not turn
    else turn = at ~= 'a' and ahead < s.headroom * s.free - outstanding(s) end
  end
  if turn then
    -- Only the server on which the sale was opened admits and reserves.
    local same, why = here(s)
    if not same then return {'stale', why} end
  end
  if few and at ~= 'a' then
    yield(s, name, u, rank, parked)
    return standing(s, name, u, 'few_left ' .. num(s.free))
  end
  local changes = 0
  if at == 'g' then
    changes = 1
    if parked and u.place == 'w' then
      s.left = s.left - 1
      redis.call('HSET', STATE, 'left', num(s.left), 'clock', s.clock)
    end
    u.place, u.batch, u.till, u.rank = 'w', '', '0', num(rank)
    redis.call('ZADD', LINE, u.rank, name)
    redis.call('ZREM', OUT, name)
  end
  if turn and id ~= '' then
    if u.place == 'w' then changes = changes + 2 end
    if not take(s, name, u, id, '') then return {'ok', s.clock, 'taken'} end
    return standing(s, name, u, '', changes)
  end
  if turn then
    changes = changes + 2
    redis.call('HSET', STATE, 'turns', num(s.turns + 1), 'clock', s.clock)
    redis.call('ZREM', LINE, name)
    redis.call('ZREM', SEEN, name)
    -- Removes more expired admissions than it adds, so that they do not pile up.
    local over = redis.call('ZRANGEBYSCORE', OUT, '-inf', num(s.now), 'LIMIT', 0, 8)
    if #over > 0 then redis.call('ZREM', OUT, unpack(over)) end
    u.place, u.batch, u.till, u.seen = 'a', u.ticket, num(s.now + s.token_for), '1'
  end
  if u.place == 'w' then
    u.seen = num(s.now + grace(interval(ahead)))
    keep(name, u)
    redis.call('ZADD', SEEN, u.seen, name)
  elseif u.seen ~= '0' then
    u.seen = num(s.now + grace(TURN_POLL))
    keep(name, u)
    redis.call('ZADD', OUT, num(math.min(tonumber(u.till), tonumber(u.seen))), name)
  end
  return standing(s, name, u, few and 'few_left ' .. num(s.free) or '', changes)
end
