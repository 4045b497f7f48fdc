-- Returns the status of a user.
--
-- ARGV: 4 user
-- Returns: a standing.

local s, why = load('left')
if not s then return {'stale', why} end
park(s, 64)
return standing(s, ARGV[4], user(ARGV[4]), '')
