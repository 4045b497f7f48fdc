-- Makes a ticket present, and admits it or reserves a unit if its turn has come.
--
-- ARGV: 4 user, 5 the reservation's ID or empty, 6 bound on the stream or 0
--       7 how many returned reservations are too many, 8 how many units the user may hold, or 0
--       9 quantity
-- Returns: a standing.

local s, why = load('paused', 'free', 'reserved', 'turns', 'left', 'fixed', 'server')
if not s then return {'stale', why} end
bound(s, ARGV[7], ARGV[8], ARGV[9])
park(s, 64)
return visit(s, ARGV[4], user(ARGV[4]), ARGV[5], tonumber(ARGV[6]))
