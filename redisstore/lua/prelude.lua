-- Weir's script: the names that every other file of it uses.
--
-- The script is assembled as
--
--   prelude.lua
--   local function use(name)
--     if name == 'token_bucket' then <token_bucket.lua> end
--     … one branch for every other file of this directory …
--   end
--   main.lua
--
-- so that a call builds only the functions that it uses. use('a/b') wraps b in a.
-- README.md is the contract of a twin.

local call, format, floor = redis.call, string.format, math.floor

-- What is asked: the numbers of weir.Verb, of which the first five are also
-- those of algo.Op.
local TAKE, TAKE_UP_TO, PEEK, CHARGE, RETURN = 0, 1, 2, 3, 4
local RESET, RESERVE, COMMIT, CANCEL = 5, 6, 7, 8

-- The retry of a request that no waiting can make fit.
local NEVER = -1

-- The bounds of package algo.
local MAX_SPAN = 3155760000000000     -- 100 years, in µs
local MAX_COUNT = 1099511627776       -- 2^40 tokens
local MAX_INSTANT = 9007199254740991  -- 2^53 - 1
