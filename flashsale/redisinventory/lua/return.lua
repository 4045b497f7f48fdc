-- Returns the units of a reservation, once.
--
-- ARGV: 4 user, 5 the reservation's ID, 6 whether the user left it unpaid: 1 or 0
-- Returns: {'ok', now, 1 if this call did or 0}.

local s, why = here(load('free', 'reserved', 'paid', 'server'))
if not s then return {'stale', why} end
local name, id = ARGV[4], ARGV[5]
local r = redis.call('HGET', RES, id)
if not r or string.match(r, '^h %S+ %S+ %S+ %S+ (%S+)') ~= name then
  return {'ok', s.clock, '0'}
end
local quantity = units(r)
local reserved = s.reserved - quantity
redis.call('HSET', STATE, 'free', num(s.free + quantity), 'reserved', num(reserved), 'clock', s.clock)
if s.paid > reserved then redis.call('HSET', STATE, 'paid', num(reserved)) end
redis.call('HSET', RES, id, 'r' .. string.sub(r, 2))
local u, left = user(name), {}
for _, h in ipairs(holding(u)) do
  if h ~= id then left[#left + 1] = h end
end
u.returned = num(u.returned + ARGV[6])
u.held = #left > 0 and table.concat(left, ',') or '-'
keep(name, u)
return {'ok', s.clock, '1'}
