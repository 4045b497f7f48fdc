-- The limits of a key: those of an override that names the key exactly, else those of the
-- first override that matches it, else those of the policy.

local address = require "weir.address"

local M = {}

local find, sub = string.find, string.sub
local contains = address.contains

-- The maximum length of a value that is compared with gaps, in bytes. A client chooses the
-- value, and many overrides may be compared with it.
local MAX_VALUE = 8192

-- gaps reports whether a value matches a text with gaps, in time linear in the value.
local function gaps(text, value)
  local count = #text
  local first, last = text[1], text[count]
  if value == "" or #value > MAX_VALUE or #value < #first + #last or sub(value, 1, #first) ~= first then return false end
  local to = #value - #last
  if sub(value, to + 1) ~= last then return false end
  local from = #first + 1
  for i = 2, count - 1 do -- the first match leaves the most for the following ones
    local at, ends = find(value, text[i], from, true)
    if not at or ends > to then return false end
    from = ends + 1
  end
  return true
end

local function fits(w, values, a)
  local fit = w.fit
  for i = 1, #fit do
    local f = fit[i]
    if not f.any then
      local text = f.text
      if f.net then
        local ip = a:ip()
        if not ip or not contains(f.net, ip) then return false end
      elseif text[2] == nil then
        if text[1] ~= values[i] then return false end
      elseif not gaps(text, values[i]) then
        return false
      end
    end
  end
  return true
end

-- limits returns the rules of a key that has these values.
function M.limits(p, key, values, a)
  local exact = p.exact
  local rules = exact and exact[key]
  if rules then return rules end
  local wildcards = p.wildcards
  if wildcards then
    for i = 1, #wildcards do
      if fits(wildcards[i], values, a) then return wildcards[i].limits end
    end
  end
  return p.limits
end

-- prepare makes a fit of a plan ready for limits.
function M.prepare(fit)
  if fit.network then fit.net = assert(address.network(fit.network), "override: network " .. fit.network) end
end

return M
