-- Pauses admission and reservation, or resumes them.
--
-- ARGV: 4 paused: 1 or 0

local s, why = load()
if not s then return {'stale', why} end
redis.call('HSET', STATE, 'paused', ARGV[4], 'clock', s.clock)
return {'ok', s.clock}
