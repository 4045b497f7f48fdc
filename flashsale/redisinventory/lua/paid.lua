-- Sets the number of paid units.
--
-- ARGV: 4 units; fewer than before change nothing

local s, why = here(load('paid', 'server'))
if not s then return {'stale', why} end
if tonumber(ARGV[4]) > s.paid then
  redis.call('HSET', STATE, 'paid', ARGV[4], 'clock', s.clock)
end
return {'ok', s.clock}
