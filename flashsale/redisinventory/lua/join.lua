-- Gives a user a ticket, or returns the status of the ticket that the user has.
--
-- ARGV: 4 user, 5 the new ticket's ID, 6 rank or 0, 7 lot or 0
--       8 refuse if so many wait, or 0
--       9 admitted at once: 1 or 0, 10 with which batch, 11 until, in ms
--       12 how many users and how many reservations there may be
--       13 how many reservations one user may get
-- Returns: a standing.

local LAST = 9007199254740992 -- 2^53: beyond it a score is not exact

-- unused returns the first free rank from the given one on, or nil.
local function unused(rank)
  while true do
    local taken = redis.call('ZRANGEBYSCORE', LINE, num(rank), '(+inf', 'WITHSCORES', 'LIMIT', 0, 100)
    for i = 2, #taken, 2 do
      if tonumber(taken[i]) ~= rank then return rank end
      if rank >= LAST then return nil end
      rank = rank + 1
    end
    if #taken < 200 then return rank end
  end
end

local s, why = load('paused', 'fixed', 'top')
if not s then return {'stale', why} end
local name, direct = ARGV[4], ARGV[9] == '1'
local u = user(name)
if u.place == 'w' or u.place == 'a' and not over(s, u) or u.ticket == ARGV[5] then
  return standing(s, name, u, '')
end

local refused
local from = s.starts
if s.shuffled and not direct then from = from - s.lobby end
local max, room = tonumber(ARGV[8]), tonumber(ARGV[12])
local waiting
if not direct then waiting = redis.call('ZCARD', LINE) - 1 end
if s.now >= s.ends then refused = 'ended'
elseif direct and s.paused == 1 then refused = 'paused'
elseif s.now < from then refused = 'not_started'
elseif #holding(u) >= s.per_user or tonumber(u.got) >= tonumber(ARGV[13]) then refused = 'per_user'
elseif not direct and max > 0 and waiting >= max then refused = 'queue_full'
elseif u.new and redis.call('HLEN', USERS) > room or redis.call('HLEN', RES) > room then
  refused = 'queue_full' -- the empty member is counted too
end
if refused then return standing(s, name, u, refused) end

local rank, ahead = tonumber(ARGV[6]), nil
if u.place ~= '-' then rank = 0 end
if rank == 0 and s.shuffled and s.now < s.starts then rank = tonumber(ARGV[7]) end
if rank == 0 then
  -- Above every assigned rank: it is free, and all waiting users are before it.
  rank, ahead = math.max(s.us, s.top + 1), waiting
  if rank <= s.top then rank = nil end
else
  rank = unused(rank)
end
if not rank then return standing(s, name, u, 'queue_full') end

redis.call('HSET', STATE, 'clock', s.clock, 'top', num(math.max(s.top, rank)))
if u.place == 'a' then redis.call('ZREM', OUT, name) end
u.ticket, u.rank, u.last, u.till, u.batch = ARGV[5], num(rank), '-', '0', ''
if direct then
  u.place, u.batch, u.till = 'a', ARGV[10], ARGV[11]
  redis.call('ZADD', OUT, u.till, name)
else
  u.place = 'w'
  redis.call('ZADD', LINE, u.rank, name)
end
keep(name, u)
return standing(s, name, u, '', ahead)
