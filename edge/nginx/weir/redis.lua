-- Connections to Redis, with OpenResty's Redis client library over nginx's cosockets: a
-- bounded pool for each worker, one deadline for each call, authentication, TLS, Sentinel.
--
-- A reply is as the library returns it: a text, a number, ngx.null, or a list of replies, in
-- which an error is { false, text }. Deadlines are in ms of the worker's clock.

local clock = require "weir.clock"
local socket = require "weir.socket"

local find = string.find
local concat, max, tonumber, type = table.concat, math.max, tonumber, type
local rawget, rawset, unpack = rawget, rawset, unpack
local now = clock.now

local library
for _, name in ipairs{ "resty.redis", "nginx.redis" } do -- OpenResty's name, and Debian's
  local found, module = pcall(require, name)
  if found and type(module) == "table" then
    library = module
    break
  end
end

local M = {}
local Conn = {}
Conn.__index = Conn
local Redis = {}
Redis.__index = Redis

local POOL = 64 -- connections of a worker to one server
local BACKLOG = 1024 -- calls of a worker that may wait for a connection
local IDLE = 60000 -- ms

-- ask sends a command, by the library's name for it, and returns the reply. It returns nil,
-- a text and true for an error reply, and nil and an error if the connection is unusable.
function Conn:ask(deadline, command, ...)
  self.sock:begin(deadline)
  local red = self.red
  local reply, problem = red[command](red, ...)
  if reply == false then return nil, problem, true end
  if reply == nil then return nil, problem or "no reply" end
  return reply
end

-- keep returns a connection to the pool.
function Conn:keep()
  if self.sock:unread() or not self.red:set_keepalive(IDLE) then self.red:close() end
end

function Conn:close() self.red:close() end

-- discard closes a connection to a server that failed or is no longer the primary. The next
-- call asks the sentinels again.
function Conn:discard()
  self:close()
  local redis = self.redis
  if redis.found == self.address then redis.found = nil end
end

-- address describes a server and its connection pool.
local function address(host, port, pool)
  return {
    host = host, port = port, name = host .. ":" .. port,
    options = { pool = concat({ "weir", host, port, pool }, "|"), pool_size = POOL, backlog = BACKLOG },
  }
end

-- greeting returns the commands for a new connection.
local function greeting(user, password, db, role)
  local list = {}
  if user and user ~= "" then
    list[1] = { "auth", user, password or "" }
  elseif password and password ~= "" then
    list[1] = { "auth", password }
  end
  if db and db > 0 then list[#list + 1] = { "select", db } end
  if role then list[#list + 1] = { "role" } end
  return { list = list, role = role }
end

-- greet sends the commands of a greeting in one step.
local function greet(red, g)
  local list = g.list
  local n = #list
  if n == 0 then return true end
  red:init_pipeline(n)
  for i = 1, n do
    local c = list[i]
    red[c[1]](red, unpack(c, 2))
  end
  local replies, err = red:commit_pipeline()
  if not replies then return nil, err end
  for i = 1, n do
    local v, role = replies[i], g.role and i == n
    if type(v) == "table" and v[1] == false then
      if not role then return nil, "authentication: " .. v[2] end
    elseif role and type(v) == "table" and v[1] ~= "master" then
      return nil, "not a primary"
    end
  end
  return true
end

-- connect returns an authenticated connection, or nil and an error.
local function connect(redis, where, g, deadline)
  local red, err = library:new()
  if not red then return nil, err end
  -- The library has no function to set its socket. All its versions keep it in this field.
  local sock = rawget(red, "_sock")
  if not sock then return nil, "this Redis client library has no field _sock" end
  sock = socket.of(sock)
  rawset(red, "_sock", sock)
  sock:begin(deadline)
  local ok
  ok, err = red:connect(where.host, where.port, where.options)
  if not ok then return nil, where.name .. ": " .. err end
  local c = setmetatable({ red = red, sock = sock, redis = redis, address = where }, Conn)
  if red:get_reused_times() > 0 then return c end
  if redis.tls then
    ok, err = sock:sslhandshake(false, redis.server_name or where.host, redis.verify)
  end
  if ok then ok, err = greet(red, g) end
  if ok then return c end
  red:close()
  return nil, where.name .. ": " .. (err or "no TLS")
end

-- locate asks the sentinels for the primary, beginning with the one that answered last. The
-- sentinels and the primary get equal shares of the time.
local function locate(redis, deadline)
  local hosts, problem = redis.hosts, "no sentinel"
  local n = #hosts
  for i = 0, n - 1 do
    local at = (redis.at + i - 1) % n + 1
    local share = now() + max(1, (deadline - now()) / (n - i + 1))
    local c, err = connect(redis, hosts[at], redis.sentinel, share)
    if c then
      local v, refused
      v, err, refused = c:ask(share, "sentinel", "get-master-addr-by-name", redis.primary)
      if v == nil and not refused then c:close() else c:keep() end
      if type(v) == "table" and type(v[1]) == "string" and tonumber(v[2]) then
        local host = find(v[1], ":", 1, true) and "[" .. v[1] .. "]" or v[1]
        redis.at = at
        redis.found = address(host, tonumber(v[2]), redis.pool)
        return redis.found
      end
      if v ~= nil then err = "no primary of that name" end
      err = hosts[at].name .. ": " .. err
    end
    problem = err
  end
  return nil, "sentinel " .. problem
end

-- open returns an authenticated connection to Redis, or nil and an error.
function Redis:open(deadline)
  local where, err = self.found, nil
  if not where then
    if not self.sentinel then
      where = self.hosts[1]
    else
      where, err = locate(self, deadline)
      if not where then return nil, err end
    end
  end
  local c
  c, err = connect(self, where, self.greeting, deadline)
  if not c and self.found == where then self.found = nil end
  return c, err
end

-- new returns the Redis of settings, edge.Redis, or nil and an error. It connects on the
-- first call.
function M.new(settings)
  if not library then
    return nil, "redis: no client library: install lua-nginx-redis (Debian) or lua-resty-redis (OpenResty has it)"
  end
  local hosts = {}
  local sentinels = settings.primary and settings.primary ~= ""
  local user, db = settings.username or "", settings.db or 0
  local pool = concat({ user, db, settings.tls and "tls" or "", settings.verify and "verify" or "", settings.server_name or "" }, "|")
  for i, text in ipairs(type(settings.hosts) == "table" and settings.hosts or {}) do
    local host, port = tostring(text):match("^(.+):(%d+)$")
    if not host or tonumber(port) > 65535 then return nil, "redis: hosts: want host:port, got " .. tostring(text) end
    hosts[i] = address(host, tonumber(port), sentinels and concat({ "sentinel", settings.sentinel_username or "", pool }, "|") or pool)
  end
  if #hosts == 0 then return nil, "redis: hosts: want at least one" end
  local r = {
    hosts = hosts, at = 1, pool = pool,
    greeting = greeting(user, settings.password, db, sentinels),
    tls = settings.tls, verify = settings.verify or false,
    server_name = settings.server_name ~= "" and settings.server_name or nil,
  }
  if sentinels then
    r.sentinel = greeting(settings.sentinel_username, settings.sentinel_password)
    r.primary = settings.primary
  end
  return setmetatable(r, Redis)
end

return M
