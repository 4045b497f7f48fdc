-- Reserves units with an admitted ticket, and writes the entry of the stream.
--
-- ARGV: 4 user, 5 ticket, 6 key or empty, 7 the reservation's ID
--       8 how many returned reservations are too many, 9 how many units the user may hold, or 0
--       10 quantity
-- Returns: {'ok', now, reason, again (1 or 0), ID, record}; a reason 'taken' says that there
-- is a reservation of this ID already.

local s, why = load('paused', 'fixed', 'free', 'reserved', 'server')
if not s then return {'stale', why} end
local name, ticket, key, id = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
bound(s, ARGV[8], ARGV[9], ARGV[10])

-- An earlier reservation with this ticket or this key.
local ticketed, keyed = 't ' .. name .. ' ' .. ticket, nil
if key ~= '' then keyed = 'k ' .. name .. ' ' .. key end
local got = keyed and redis.call('HMGET', DONE, ticketed, keyed) or {redis.call('HGET', DONE, ticketed)}
local was = got[1] or got[2]
if was then return {'ok', s.clock, '', '1', was, redis.call('HGET', RES, was)} end

local u = user(name)
local at = situation(s, u)
local refused
if s.now >= s.ends then refused = 'ended'
elseif s.paused == 1 then refused = 'paused'
elseif s.now < s.starts then refused = 'not_started'
elseif u.ticket ~= ticket or u.place ~= 'a' or at == 'g' then refused = 'not_admitted'
elseif at == 'p' then refused = 'turn_passed'
elseif limited(s, u) then refused = 'per_user'
elseif s.free <= 0 then refused = 'all_taken'
elseif s.free < s.quantity then refused = 'few_left ' .. num(s.free) end
if refused then return {'ok', s.clock, refused, '0', '', ''} end
-- Only the server on which the sale was opened reserves units.
s, why = here(s)
if not s then return {'stale', why} end
local record = take(s, name, u, id, key)
if not record then return {'ok', s.clock, 'taken', '0', '', ''} end
return {'ok', s.clock, '', '0', id, record}
