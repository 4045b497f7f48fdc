-- The attributes of a request, as package httplimit reads them: each is computed once, on
-- first use. They are read from what the client sent, because nginx decodes differently from
-- Go, and rewrites change its variables.
--
-- As in net/http, Host is not a header here. Headers that nginx drops, also for the upstream,
-- are not here either (see ignore_invalid_headers and underscores_in_headers).

local address = require "weir.address"
local host = require "weir.host"
local path = require "weir.path"

local M = {}

local find, gmatch, gsub, lower, match, sub = string.find, string.gmatch, string.gsub, string.lower, string.match, string.sub
local rawget, setmetatable, type = rawget, setmetatable, type
local req, var = ngx.req, ngx.var

local Attributes = {}
Attributes.__index = Attributes

local nothing = {}

function Attributes:method()
  local m = self.m
  if not m then
    m = req.get_method()
    self.m = m
  end
  return m
end

-- sent_host returns the host as the client sent it: of a target in absolute form, else of
-- the header Host. $host would fall back to the name of the server.
local function sent_host()
  local target = match(var.request or "", "^%S+ +(%S*)")
  if target and sub(target, 1, 1) ~= "/" then
    local authority = match(target, "^%a[%w+.-]*://([^/?]*)")
    if authority and authority ~= "" then return match(authority, "[^@]*$") end
  end
  return var.http_host or ""
end

function Attributes:host()
  local h = self.h
  if not h then
    h = host.name(sent_host())
    self.h = h
  end
  return h
end

-- paths returns the variants of the path.
function Attributes:paths()
  local p = self.p
  if not p then
    p = path.of_target(var.request_uri)
    self.p = p
  end
  return p
end

local function count(s, pattern)
  local _, n = gsub(s, pattern, "")
  return n
end

-- trimmed returns s without the white space that textproto.TrimString removes.
local function trimmed(s)
  local from, to = find(s, "[^ \t\r\n]"), #s
  if not from then return "" end
  while find(sub(s, to, to), "[ \t\r\n]") do to = to - 1 end
  return sub(s, from, to)
end

-- headers returns the headers of a request without those that net/http removes.
local function headers()
  local all = req.get_headers(0)
  all["host"] = nil
  if req.http_version() < 2 then
    if rawget(all, "transfer-encoding") then
      all["transfer-encoding"] = nil
      if req.http_version() > 1 then all["trailer"], all["content-length"] = nil, nil end
    end
    local pragma = rawget(all, "pragma")
    if type(pragma) == "table" then pragma = pragma[1] end
    if pragma and match(pragma, "^[ \t]*no%-cache[ \t]*$") and not rawget(all, "cache-control") then all["cache-control"] = "no-cache" end
  else
    all["trailer"] = nil
    local expect = rawget(all, "expect")
    if type(expect) == "string" and match(lower(expect), "^ *100%-continue *$") then all["expect"] = nil end
  end
  return all
end

function Attributes:header(name)
  local hs = self.hs
  if not hs then
    hs = headers()
    self.hs = hs
  end
  local value = rawget(hs, name)
  if value == nil then return nothing end
  if type(value) ~= "table" then
    value = { value }
    hs[name] = value
  end
  return value
end

-- component decodes a name or value of a query. It returns nil for a malformed escape.
local function component(s)
  if find(s, "+", 1, true) then s = gsub(s, "%+", " ") end
  if not find(s, "%", 1, true) then return s end
  if count(s, "%%") ~= count(s, "%%%x%x") then return nil end
  return (gsub(s, "%%(%x%x)", path.decoded))
end

local function put(map, name, value)
  local list = map[name]
  if list then list[#list + 1] = value else map[name] = { value } end
end

-- net/url and net/http read nothing of a request with more parameters or cookies.
local MAX_PARAMETERS, MAX_COOKIES = 10000, 3000

-- query_values returns the values of a query by name, as url.ParseQuery does.
local function query_values(query)
  local map = {}
  if count(query, "&") + 1 > MAX_PARAMETERS then return map end
  for pair in gmatch(query, "[^&]+") do
    if not find(pair, ";", 1, true) then
      local name, value = match(pair, "^([^=]*)=?(.*)$")
      name, value = component(name), component(value)
      if name and value then put(map, name, value) end
    end
  end
  return map
end

function Attributes:query(name)
  local q = self.q
  if not q then
    q = query_values(match(var.request_uri, "^[^?]*%?([^#]*)") or "")
    self.q = q
  end
  return q[name] or nothing
end

-- cookie_values returns the values of cookies by name, as Request.CookiesNamed does.
local function cookie_values(lines)
  local map, n, size = {}, 0, 0
  for i = 1, #lines do size = size + #lines[i] + 1 end
  if size > MAX_COOKIES then
    for i = 1, #lines do n = n + count(lines[i], ";") + 1 end
    if n > MAX_COOKIES then return map end
  end
  for i = 1, #lines do
    for pair in gmatch(lines[i], "[^;]+") do
      local name, value = match(pair, "^ ?([%w!#$%%&'*+%-.^_`|~]+)=([!#-[%]^-~]*)$") -- the usual form
      if name then
        put(map, name, value)
      else
        name, value = match(trimmed(pair), "^([^=]*)=?(.*)$")
        name = trimmed(name)
        value = match(value, '^"(.*)"$') or value
        if find(name, "^[%w!#$%%&'*+%-.^_`|~]+$") and not find(value, '[^ -~]') and not find(value, '["\\]') then put(map, name, value) end
      end
    end
  end
  return map
end

function Attributes:cookie(name)
  local c = self.c
  if not c then
    c = cookie_values(self:header("cookie"))
    self.c = c
  end
  return c[name] or nothing
end

function Attributes:ip()
  local i = self.i
  if i == nil then
    i = var.binary_remote_addr
    if i and #i == 16 then
      i = address.unmap(i)
    elseif not i or #i ~= 4 then -- the peer on a Unix socket has none
      i = false
    end
    self.i = i
  end
  return i or nil
end

-- new returns the attributes of the current request.
function M.new() return setmetatable({}, Attributes) end

-- of returns the attributes of a request of plain values, for tests: method, host, path as
-- url.URL.EscapedPath returns it, headers, query and cookies as lists of values by name, and
-- ip as text.
function M.of(t)
  local ip = t.ip and t.ip ~= "" and address.parse(t.ip)
  return setmetatable({
    m = t.method or "GET", h = host.name(t.host or ""), p = path.variants(t.path or "/"),
    hs = t.headers or {}, q = t.query or {}, c = t.cookies or {}, i = ip and address.unmap(ip) or false,
  }, Attributes)
end

return M
