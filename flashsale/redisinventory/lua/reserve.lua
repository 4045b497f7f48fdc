-- Reserves a unit, and writes the entry of the stream.
--
-- ARGV: 4 user, 5 ticket, 6 key or empty, 7 the reservation's ID
--       8 how many reservations one user may get
-- Returns: {'ok', now, reason, again (1 or 0), ID, record}; a reason 'taken' says that there
-- is a reservation of this ID already.

local s, why = load('paused', 'fixed', 'free', 'reserved', 'server')
if not s then return {'stale', why} end
local name, ticket, key, id = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- An earlier reservation with this ticket or this key.
local ticketed, keyed = 't ' .. name .. ' ' .. ticket, nil
if key ~= '' then keyed = 'k ' .. name .. ' ' .. key end
local got = keyed and redis.call('HMGET', DONE, ticketed, keyed) or {redis.call('HGET', DONE, ticketed)}
local was = got[1] or got[2]
if was then return {'ok', s.clock, '', '1', was, redis.call('HGET', RES, was)} end

local u = user(name)
local held = holding(u)
local refused
if s.now >= s.ends then refused = 'ended'
elseif s.paused == 1 then refused = 'paused'
elseif s.now < s.starts then refused = 'not_started'
elseif u.ticket ~= ticket or u.place ~= 'a' then refused = 'not_admitted'
elseif over(s, u) then refused = 'turn_passed'
elseif #held >= s.per_user or tonumber(u.got) >= tonumber(ARGV[8]) then refused = 'per_user'
elseif s.free <= 0 then refused = 'all_taken' end
if refused then return {'ok', s.clock, refused, '0', '', ''} end
-- Only the server on which the sale was opened reserves units.
s, why = here(s)
if not s then return {'stale', why} end

local slot, taken = 1, {}
for _, h in ipairs(held) do
  taken[tonumber(string.match(redis.call('HGET', RES, h), '^%S+ (%S+)'))] = true
end
while taken[slot] do slot = slot + 1 end
local record = table.concat({'h', num(slot), num(s.now), num(s.now + s.pay), ARGV[1], name, ticket, key}, ' ')

if redis.call('HSETNX', RES, id, record) == 0 then return {'ok', s.clock, 'taken', '0', '', ''} end
redis.call('HSET', STATE, 'free', num(s.free - 1), 'reserved', num(s.reserved + 1), 'clock', s.clock)
if keyed then
  redis.call('HSET', DONE, ticketed, id, keyed, id)
else
  redis.call('HSET', DONE, ticketed, id)
end
held[#held + 1] = id
u.place, u.last, u.got, u.held = 's', id, num(u.got + 1), table.concat(held, ',')
keep(name, u)
redis.call('ZREM', OUT, name)
redis.call('XADD', STREAM, '*', 'r', id .. ' ' .. record)
return {'ok', s.clock, '', '0', id, record}
