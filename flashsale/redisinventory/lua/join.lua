-- Gives a user a ticket if there is none, and then does what poll.lua does.
--
-- ARGV: 4 user, 5 the new ticket's ID, 6 rank or 0, 7 lot or 0
--       8 refuse if so many wait, or 0
--       9 admitted at once: 1 or 0, 10 with which batch, 11 until, in ms
--       12 how many users and how many reservations there may be
--       13 how many returned reservations are too many
--       14 the reservation's ID or empty, 15 bound on the stream or 0
--       16 how many units the user may hold, or 0, 17 quantity
-- Returns: a standing.

local s, why = load('paused', 'free', 'reserved', 'turns', 'left', 'top', 'fixed', 'server')
if not s then return {'stale', why} end
bound(s, ARGV[13], ARGV[16], ARGV[17])
local name, direct = ARGV[4], ARGV[9] == '1'
park(s, 64)
local u = user(name)
local at = situation(s, u)
if at == 'w' or at == 'g' or at == 'a' then return visit(s, name, u, ARGV[14], tonumber(ARGV[15])) end
if u.ticket == ARGV[5] or redis.call('HEXISTS', DONE, 't ' .. name .. ' ' .. ARGV[5]) == 1 then return standing(s, name, u, '') end

local refused
local from = s.starts
if s.shuffled and not direct then from = from - s.lobby end
local max, room = tonumber(ARGV[8]), tonumber(ARGV[12])
local waiting
if not direct then waiting = redis.call('ZCARD', LINE) - 1 end
if s.now >= s.ends then refused = 'ended'
elseif direct and s.paused == 1 then refused = 'paused'
elseif s.now < from then refused = 'not_started'
elseif limited(s, u) then refused = 'per_user'
elseif not direct and max > 0 and waiting >= max then refused = 'queue_full'
elseif u.new and redis.call('HLEN', USERS) > room or redis.call('HLEN', RES) > room then
  refused = 'queue_full' -- the empty member is counted too
end
if refused then return standing(s, name, u, refused) end

local rank = tonumber(ARGV[6])
local penalty = 0
if u.place ~= '-' then rank = 0 end
if rank == 0 then
  local unpaid = tonumber(u.returned)
  if unpaid > 0 then penalty = 1000 * s.pay * 2 ^ math.min(unpaid - 1, 3) end
  if s.shuffled and s.now < s.starts then rank = tonumber(ARGV[7]) end
  if rank == 0 then rank = math.max(s.us, s.top + 1) end
  rank = rank + penalty
end
local only = not direct and waiting == 0 -- in the queue, which has no rank then
if not only then rank = unused(rank) end
if only and rank > LAST then rank = nil end
if not rank then return standing(s, name, u, 'queue_full') end
if penalty == 0 then s.top = math.max(s.top, rank) end

-- Without a queue, the ticket reserves its units at once and never enters it.
local id, backlog = ARGV[14], tonumber(ARGV[15])
if only and id ~= '' and (u.place == '-' or u.place == 's') and s.quantity <= s.free and openings(s, backlog) > 0 then
  local same, why = here(s)
  if not same then return {'stale', why} end
  u.ticket, u.rank, u.till, u.batch, u.place = ARGV[5], num(rank), '0', '', 'n'
  if not take(s, name, u, id, '') then return {'ok', s.clock, 'taken'} end
  return standing(s, name, u, '', 2)
end
redis.call('HSET', STATE, 'clock', s.clock, 'top', num(s.top))
if u.place == 'a' then redis.call('ZREM', OUT, name) end
if u.place == 'w' and redis.call('ZREM', SEEN, name) == 1 then
  s.left = s.left + 1 -- absent for so long that it is not restored
  redis.call('HSET', STATE, 'left', num(s.left))
  redis.call('ZREM', LINE, name)
end
u.ticket, u.rank, u.last, u.till, u.seen, u.batch = ARGV[5], num(rank), '-', '0', '0', ''
if direct then
  u.place, u.batch, u.till = 'a', ARGV[10], ARGV[11]
  redis.call('ZADD', OUT, u.till, name)
  keep(name, u)
  return standing(s, name, u, '')
end
u.place, u.seen = 'w', num(s.now + grace(TURN_POLL))
redis.call('ZADD', LINE, u.rank, name)
return visit(s, name, u, id, backlog)
