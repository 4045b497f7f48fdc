-- Matches requests with policies.

local expression = require "weir.expression"
local host = require "weir.host"
local path = require "weir.path"
local trim = require("weir.text").trim

local M = {}

local matches_host, matches_path = host.matches, path.matches
local upper = string.upper

-- fault records in s that an expression of p cannot be evaluated.
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

-- fits_path records the first pattern that matches a variant of the path, and the variant.
local function fits_path(patterns, variants, s)
  for i = 1, #patterns do
    local pattern = patterns[i]
    for j = 1, #variants do
      if matches_path(pattern, variants[j]) then
        s.pattern, s.variant = pattern.pattern, j
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

-- variant returns a variant of the path as an expression reads it.
local function variant(a, i)
  local text = a:paths()[i]
  return text == "" and "/" or text
end
M.variant = variant

-- holds reports whether where holds for a variant of the path, and records which. A
-- condition that cannot be evaluated holds, so that an error does not bypass a limit.
local function holds(p, where, a, s)
  for i = 1, #a:paths() do
    local ok, err = where(a, variant(a, i))
    if ok == nil then fault(s, p, "match.where", err) end
    if ok ~= false then
      s.variant = i
      return true
    end
  end
  return false
end

-- request reports whether p matches a request, and sets the fields of s that the key
-- needs: pattern, variant and fault.
function M.request(p, a, s)
  local m = p.match
  if m.method_set and not m.method_set[upper(a:method())] then return false end
  if m.hosts and not fits_host(m.hosts, a:host()) then return false end
  s.pattern, s.variant, s.fault = "", 1, nil
  if m.paths and not fits_path(m.paths, a:paths(), s) then return false end
  local headers = m.headers
  if headers then
    for i = 1, #headers do
      if not fits_header(headers[i], a:header(headers[i].name)) then return false end
    end
  end
  return not m.where or holds(p, m.where, a, s)
end

local function set(list)
  local t = {}
  for i = 1, #list do t[list[i]] = true end
  return t
end
M.set = set

-- prepare compiles the match of a plan for request.
function M.prepare(m)
  m.method_set = m.methods and set(m.methods)
  for _, h in ipairs(m.hosts or {}) do host.prepare(h) end
  for _, r in ipairs(m.paths or {}) do path.prepare(r) end
  for _, h in ipairs(m.headers or {}) do h.set = set(h.values or {}) end
  m.where = m.where and expression.compile(m.where)
end

return M
