-- Which policies a request falls under.

local expression = require "weir.expression"
local host = require "weir.host"
local path = require "weir.path"
local trim = require("weir.text").trim

local M = {}

local matches_host, matches_path = host.matches, path.matches
local upper = string.upper

-- fault notes in s that an expression of p could not be evaluated.
local function fault(s, p, field, why)
  if not s.fault then s.fault = 'policy "' .. p.name .. '": ' .. field .. ": " .. why end
end
M.fault = fault

local function fits_host(hosts, name)
  for i = 1, #hosts do
    if matches_host(hosts[i], name) then return true end
  end
  return false
end

-- fits_path keeps the first pattern that matches any reading of the path, and which.
local function fits_path(patterns, readings, s)
  for i = 1, #patterns do
    local pattern = patterns[i]
    for j = 1, #readings do
      if matches_path(pattern, readings[j]) then
        s.pattern, s.reading = pattern.pattern, j
        return true
      end
    end
  end
  return false
end

local function fits_header(h, lines)
  if not lines then return false end
  for i = 1, #lines do
    local line = trim(lines[i])
    if h.set[line] or h.any and line ~= "" then return true end
  end
  return false
end

-- reading is a reading of the path as an expression sees it.
local function reading(a, i)
  local text = a:readings()[i]
  return text == "" and "/" or text
end
M.reading = reading

-- holds says whether where holds for a reading of the path, and keeps which. One that
-- cannot be evaluated holds: a fault is no way around a limit.
local function holds(p, where, a, s)
  for i = 1, #a:readings() do
    local ok, err = expression.eval(where, a, reading(a, i))
    if ok == nil then fault(s, p, "match.where", err) end
    if ok ~= false then
      s.reading = i
      return true
    end
  end
  return false
end

-- request says whether p is about a request, and fills in s what the key needs:
-- pattern, reading and fault. If it is not, the second result is the field that the
-- request did not fit.
function M.request(p, a, s)
  local m = p.match
  if m.method_set and not m.method_set[upper(a:method())] then return false, "match.methods" end
  if m.hosts and not fits_host(m.hosts, a:host()) then return false, "match.hosts" end
  s.pattern, s.reading, s.fault = "", 1, nil
  if m.paths and not fits_path(m.paths, a:readings(), s) then return false, "match.paths" end
  local headers = m.headers
  if headers then
    for i = 1, #headers do
      if not fits_header(headers[i], a:header(headers[i].name)) then return false, "match.headers." .. headers[i].name end
    end
  end
  if m.where and not holds(p, m.where, a, s) then return false, "match.where" end
  return true
end

local function set(list)
  local t = {}
  for i = 1, #list do t[list[i]] = true end
  return t
end
M.set = set

-- ready makes the match of a plan, which was checked, fit for request.
function M.ready(m)
  m.method_set = m.methods and m.methods[1] and set(m.methods) or nil
  m.hosts = m.hosts and m.hosts[1] and m.hosts or nil
  m.paths = m.paths and m.paths[1] and m.paths or nil
  m.headers = m.headers and m.headers[1] and m.headers or nil
  for _, h in ipairs(m.hosts or {}) do host.ready(h) end
  for _, r in ipairs(m.paths or {}) do path.ready(r) end
  for _, h in ipairs(m.headers or {}) do h.set = set(h.values or {}) end
end

return M
