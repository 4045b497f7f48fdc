-- The params of a rule as the script takes them, and those of a calendar, whose windows
-- depend on the date. Pure.
--
-- A calendar has bounds, the instants in seconds since the epoch at which a window ends
-- and the next begins, ascending. The params of its rule want five of them in µs, from
-- the place at on: the start of the window before now's, of now's and of the two after
-- it, and the end of the last.

local ffi = require "ffi"

local floor = math.floor
local M = {}

-- M.pack is whole numbers of 8 bytes each, little-endian.
function M.pack(params)
  local n = #params
  local p = ffi.new("int64_t[?]", n)
  for i = 1, n do p[i - 1] = params[i] end
  return ffi.string(p, 8 * n)
end

-- window is the place among bounds of the start of the window that now, in seconds, is
-- in; 0 if that is before all of them.
local function window(bounds, now)
  local low, high = 0, #bounds
  while low < high do
    local middle = floor((low + high + 1) / 2)
    if bounds[middle] <= now then low = middle else high = middle - 1 end
  end
  return low
end

-- M.packed is the params of a rule with a calendar at an instant in µs; or nil and a
-- problem if the calendar has no five bounds around it. It remembers them in the rule
-- for as long as they hold.
function M.packed(rule, now)
  if rule.dated and rule.dated_from <= now and now < rule.dated_to then return rule.dated end
  local c = rule.calendar
  local bounds, at = c.bounds, c.at
  local i = window(bounds, now / 1e6)
  if i < 2 or i + 3 > #bounds then
    return nil, "weir: limit " .. rule.limit .. ": the plan has no windows for " .. os.date("!%Y-%m-%d", floor(now / 1e6))
      .. ": make it anew"
  end
  local params = {}
  for k = 1, #rule.params do params[k] = rule.params[k] end
  for k = 0, 4 do params[at + k] = bounds[i - 1 + k] * 1e6 end
  rule.dated, rule.dated_from, rule.dated_to = M.pack(params), bounds[i] * 1e6, bounds[i + 1] * 1e6
  return rule.dated
end

return M
