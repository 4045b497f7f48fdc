-- The constants of Weir's script. script.go replaces their names by their values, because
-- a name that functions share costs every call about 40 ns.
--
-- The script is assembled as
--
--   local function use(name)
--     if name == 'token_bucket' then <token_bucket.lua> end
--     … one branch for every other file of this directory …
--   end
--   main.lua, with take.lua in it
--
-- so that a call creates only the functions that it uses. use('a/b') wraps b in a.
-- README.md has the contract of a twin.

-- The numbers of weir.Verb; the first five are also those of algo.Op. RETRACT undoes a
-- Reserve completely, and only the store sends it.
local TAKE = 0
local TAKE_UP_TO = 1
local PEEK = 2
local CHARGE = 3
local RETURN = 4
local RESET = 5
local RESERVE = 6
local COMMIT = 7
local CANCEL = 8
local RETRACT = 9

-- The retry of a request that never fits.
local NEVER = -1

-- The bounds of package algo.
local MAX_SPAN = 3155760000000000     -- 100 years, in µs
local MAX_COUNT = 1099511627776       -- 2^40 tokens
local MAX_INSTANT = 9007199254740991  -- 2^53 - 1

-- The longest span, in µs, of a clock that was set back that a state records: 366 days.
local MAX_AHEAD = 31622400000000

-- The format of the reply to one request: see main.lua.
local ANSWER = '<i8i8i8i8i8i8i8'
