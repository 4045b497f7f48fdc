-- Reserves a unit, and writes the entry of the stream.
--
-- ARGV: 4 user, 5 ticket, 6 key or empty, 7 the reservation's ID
-- Returns: {'ok', now, reason, again (1 or 0), ID, record}; a reason 'taken' says that there
-- is a reservation of this ID already.

local s, why = load('paused', 'fixed', 'free', 'reserved')
if not s then return {'stale', why} end
local name, ticket, key, id = ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- again answers with what the user has got for a field of done.
local function again(field)
  local was = redis.call('HGET', DONE, field)
  return was and {'ok', num(s.us), '', '1', was, redis.call('HGET', RES, was)}
end
local ticketed, keyed = 't ' .. name .. ' ' .. ticket, 'k ' .. name .. ' ' .. key
local r = again(ticketed) or key ~= '' and again(keyed)
if r then return r end

local u = user(name)
local held = holding(u)
local refused
if s.now >= s.ends then refused = 'ended'
elseif s.paused == 1 then refused = 'paused'
elseif s.now < s.starts then refused = 'not_started'
elseif u.ticket ~= ticket or u.place ~= 'a' then refused = 'not_admitted'
elseif u.till <= s.now then refused = 'turn_passed'
elseif #held >= s.per_user then refused = 'per_user'
elseif s.free <= 0 then refused = 'all_taken'
elseif redis.call('HEXISTS', RES, id) == 1 then refused = 'taken' end
if refused then return {'ok', num(s.us), refused, '0', '', ''} end
-- A unit is given on the server alone on which the sale was opened.
if redis.call('HGET', STATE, 'server') ~= server() then
  shut('server')
  return {'stale', 'server'}
end

local slot, taken = 1, {}
for _, h in ipairs(held) do
  taken[tonumber(string.match(redis.call('HGET', RES, h), '^%S+ (%S+)'))] = true
end
while taken[slot] do slot = slot + 1 end
local record = table.concat({'h', num(slot), num(s.now), num(s.now + s.pay), ARGV[1], name, ticket, key}, ' ')

redis.call('HSET', STATE, 'free', num(s.free - 1), 'reserved', num(s.reserved + 1), 'clock', num(s.us))
redis.call('HSET', RES, id, record)
redis.call('HSET', DONE, ticketed, id)
if key ~= '' then redis.call('HSET', DONE, keyed, id) end
held[#held + 1] = id
u.place, u.last, u.held = 's', id, table.concat(held, ',')
keep(name, u)
redis.call('ZREM', OUT, name)
redis.call('XADD', STREAM, '*', 'r', id .. ' ' .. record)
return {'ok', num(s.us), '', '0', id, record}
