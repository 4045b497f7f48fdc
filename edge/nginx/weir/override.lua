-- Limits of certain keys: those of an override that names a key exactly or else of the
-- first that fits it, and otherwise those of the policy.

local address = require "weir.address"

local M = {}

local find, sub = string.find, string.sub
local contains = address.contains

-- longest is the longest value that is compared with gaps, in bytes: it is a client's,
-- and there may be many overrides to compare it with.
local longest = 8192

-- gaps says whether a value is a text with gaps. It takes time in proportion to the
-- value, however many gaps there are.
local function gaps(text, value)
  local count = #text
  local first, last = text[1], text[count]
  if value == "" or #value > longest or #value < #first + #last or sub(value, 1, #first) ~= first then return false end
  local to = #value - #last
  if sub(value, to + 1) ~= last then return false end
  local from = #first + 1
  for i = 2, count - 1 do -- the first place leaves the most to those after it
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

-- limits are the rules of a key with such values, and whether an override gives them.
function M.limits(p, key, values, a)
  local exact = p.exact
  local rules = exact and exact[key]
  if rules then return rules, true end
  local wildcards = p.wildcards
  if wildcards then
    for i = 1, #wildcards do
      if fits(wildcards[i], values, a) then return wildcards[i].limits, true end
    end
  end
  return p.limits, false
end

-- ready makes a fit of a plan fit for limits. It returns what was expected instead, or
-- nil.
function M.ready(fit)
  if type(fit) ~= "table" then return "want a fit" end
  if fit.any == true then return nil end
  if fit.network ~= nil then
    fit.net = type(fit.network) == "string" and address.network(fit.network) or nil
    return not fit.net and "want a network such as 203.0.113.0/24" or nil
  end
  if type(fit.text) ~= "table" or #fit.text == 0 then return "want any, a network or a text" end
  for i = 1, #fit.text do
    if type(fit.text[i]) ~= "string" then return "want texts" end
  end
  return nil
end

return M
