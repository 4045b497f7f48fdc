-- Host names: all spellings of one host become the same text.

local address = require "weir.address"
local lower = require("weir.lowercase").lower

local M = {}

local byte, find, match, sub = string.byte, string.find, string.match, string.sub

-- name returns a host as sent, in lower case, without port and trailing dots. An address
-- is returned in its canonical form.
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

-- matches reports whether a pattern of a plan matches a host that name returned.
function M.matches(pattern, host)
  local name = pattern.name
  if not pattern.below then return host == name end
  return #host > #name + 1 and sub(host, -#name - 1) == pattern.tail
end

-- prepare makes a pattern of a plan ready for matches.
function M.prepare(pattern) pattern.tail = "." .. pattern.name end

return M
