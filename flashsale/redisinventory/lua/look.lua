-- Returns the status of a user.
--
-- ARGV: 4 user
-- Returns: a standing.

local s, why = load()
if not s then return {'stale', why} end
return standing(s, ARGV[4], user(ARGV[4]), '')
