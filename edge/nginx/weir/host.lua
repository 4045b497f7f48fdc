-- Names of hosts: however a client spells one, it says the same.

local address = require "weir.address"
local lower = require("weir.lower").lower

local M = {}

local byte, find, match, sub = string.byte, string.find, string.match, string.sub

-- name is a host as sent without port, trailing dots and case. An address has one
-- spelling.
function M.name(s)
  if sub(s, 1, 1) == "[" then
    s = match(s, "^%[([^%]]*)")
  else
    local colon = find(s, ":", 1, true)
    if colon and not find(s, ":", colon + 1, true) then s = sub(s, 1, colon - 1) end
  end
  local last = #s
  while byte(s, last) == 46 do last = last - 1 end
  s = lower(sub(s, 1, last))
  if find(s, ":", 1, true) then
    local b, zone = address.parse(s)
    if b then
      if address.mapped(b) then return address.text(address.unmap(b)) end
      return zone and address.text(b) .. "%" .. zone or address.text(b)
    end
  end
  return s
end

-- matches says whether a pattern of a plan stands for a host as name gives it.
function M.matches(pattern, host)
  local name = pattern.name
  if not pattern.below then return host == name end
  return #host > #name + 1 and sub(host, -#name - 1) == pattern.tail
end

-- ready makes the pattern of a plan fit for matches.
function M.ready(pattern) pattern.tail = "." .. pattern.name end

return M
