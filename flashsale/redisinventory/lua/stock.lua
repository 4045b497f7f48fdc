-- Sets the number of units.
--
-- ARGV: 4 units
-- Returns: {'ok', now, how many there were}: if those are more, nothing changed.

local s, why = here(load('stock', 'free', 'server'))
if not s then return {'stale', why} end
local more = tonumber(ARGV[4]) - s.stock
if more > 0 then
  redis.call('HSET', STATE, 'stock', ARGV[4], 'free', num(s.free + more), 'clock', s.clock)
end
return {'ok', s.clock, num(s.stock)}
