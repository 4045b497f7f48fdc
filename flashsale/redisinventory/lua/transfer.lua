-- Takes free units for a reservation of an earlier epoch, and writes the entry of the stream.
--
-- ARGV: 4 user, 5 ticket, 6 key or empty, 7 the reservation's ID, 8 at in ms, 9 payby in ms
--       10 how many users and how many reservations there may be
--       11 the epoch and 12 the slot that the reservation had, 13 quantity
-- Returns: {'ok', now, 1 if this epoch has the reservation now, or 0}.

local s, why = here(load('fixed', 'free', 'reserved', 'server'))
if not s then return {'stale', why} end
local name, ticket, key, id = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local r = redis.call('HGET', RES, id)
if r then return {'ok', s.clock, string.match(r, '^%S+ %S+ %S+ %S+ %S+ (%S+)') == name and '1' or '0'} end

local ticketed, keyed = 't ' .. name .. ' ' .. ticket, nil
if key ~= '' then keyed = 'k ' .. name .. ' ' .. key end
local got = keyed and redis.call('HMGET', DONE, ticketed, keyed) or {redis.call('HGET', DONE, ticketed)}
local u, room = user(name), tonumber(ARGV[10])
local held, quantity = holding(u), tonumber(ARGV[13])
if got[1] or got[2] or s.free < quantity or holds(held) + quantity > s.per_user
  or u.new and redis.call('HLEN', USERS) > room or redis.call('HLEN', RES) > room then
  return {'ok', s.clock, '0'}
end

local record = table.concat({'h', slot_of(unused_slot(held, tonumber(ARGV[12]), s.per_user), quantity), ARGV[8], ARGV[9], ARGV[11], name, ticket, key}, ' ')
redis.call('HSET', RES, id, record)
redis.call('HSET', STATE, 'free', num(s.free - quantity), 'reserved', num(s.reserved + quantity), 'clock', s.clock)
if keyed then
  redis.call('HSET', DONE, ticketed, id, keyed, id)
else
  redis.call('HSET', DONE, ticketed, id)
end
held[#held + 1] = id
u.held = table.concat(held, ',')
keep(name, u)
redis.call('XADD', STREAM, '*', 'r', id .. ' ' .. record)
return {'ok', s.clock, '1'}
