-- Connections to Redis, over nginx's cosockets: a bounded pool of each worker, one
-- deadline for all that a question takes, signing in, TLS, and Sentinel.
--
-- It speaks as much of RESP2 as the script and the sentinels need. A library would give
-- each step of a question a timeout of its own, and read an answer in more steps.
--
-- A reply is a text, a number, false for none, or a list of replies, in which an error
-- is { err = text }. An instant is ms of the worker's clock.

local clock = require "weir.clock"

local tcp = ngx.socket.tcp
local byte, find, sub = string.byte, string.find, string.sub
local concat, max, min, tonumber, type = table.concat, math.max, math.min, tonumber, type
local now = clock.now

local M = {}
local Conn = {}
Conn.__index = Conn
local Redis = {}
Redis.__index = Redis

local POOL = 64 -- connections of a worker to one server
local BACKLOG = 1024 -- questions of a worker that may wait for one
local IDLE = 60000 -- ms
local MOST = 64 * 1024 * 1024 -- bytes of a text in a reply
local CHUNK = 64 * 1024
local DEPTH = 4

-- left is the ms until an instant, or nil if there are none.
local function left(deadline, most)
  local ms = deadline - now()
  if ms < 1 then return nil end
  return min(ms, most or ms)
end

-- fill reads more of a reply.
local function fill(c, deadline)
  local ms = left(deadline)
  if not ms then return nil, "timeout" end
  c.sock:settimeout(ms)
  local data, err = c.sock:receiveany(CHUNK)
  if not data then return nil, err end
  if c.pos > #c.buf then c.buf = data else c.buf = sub(c.buf, c.pos) .. data end
  c.pos = 1
  return true
end

local function line(c, deadline)
  while true do
    local at = find(c.buf, "\r\n", c.pos, true)
    if at then
      local text = sub(c.buf, c.pos, at - 1)
      c.pos = at + 2
      return text
    end
    if #c.buf - c.pos > CHUNK then return nil, "a reply without an end of its line" end
    local ok, err = fill(c, deadline)
    if not ok then return nil, err end
  end
end

-- text reads so many bytes and the end of a line.
local function text(c, size, deadline)
  local stop = c.pos + size - 1
  if #c.buf >= stop + 2 then
    local t = sub(c.buf, c.pos, stop)
    if sub(c.buf, stop + 1, stop + 2) ~= "\r\n" then return nil, "a reply of another length than it says" end
    c.pos = stop + 3
    return t
  end
  local parts, n, missing = { sub(c.buf, c.pos) }, 1, stop + 2 - #c.buf
  c.buf, c.pos = "", 1
  while missing > 0 do
    local ms = left(deadline)
    if not ms then return nil, "timeout" end
    c.sock:settimeout(ms)
    local data, err = c.sock:receiveany(min(missing, CHUNK))
    if not data then return nil, err end
    n = n + 1
    parts[n] = data
    missing = missing - #data
  end
  local t = concat(parts)
  if sub(t, -2) ~= "\r\n" then return nil, "a reply of another length than it says" end
  return sub(t, 1, -3)
end

-- read is the next reply; or nil and why the connection is of no use any more; or nil,
-- an error reply's text and true.
local function read(c, deadline, depth)
  local l, err = line(c, deadline)
  if not l then return nil, err end
  local kind, rest = byte(l), sub(l, 2)
  if kind == 43 then return rest end -- +
  if kind == 45 then return nil, rest, true end -- -
  local n = find(rest, "^%-?%d+$") and #rest < 20 and tonumber(rest)
  if not n then return nil, "a reply that is not one of Redis" end
  if kind == 58 then return n end -- :
  if kind == 36 then -- $
    if n == -1 then return false end
    if n < 0 or n > MOST then return nil, "a reply of " .. n .. " bytes" end
    return text(c, n, deadline)
  end
  if kind ~= 42 or n > CHUNK or n < -1 or depth > DEPTH then return nil, "a reply that is not one of Redis" end
  if n == -1 then return false end
  local list = {}
  for i = 1, n do
    local v, problem, refused = read(c, deadline, depth + 1)
    if v == nil then
      if not refused then return nil, problem end
      v = { err = problem }
    end
    list[i] = v
  end
  return list
end

-- M.command is a command as it is sent.
function M.command(...)
  local n = select("#", ...)
  local parts = { "*" .. n .. "\r\n" }
  for i = 1, n do
    local s = tostring((select(i, ...)))
    parts[i + 1] = "$" .. #s .. "\r\n" .. s .. "\r\n"
  end
  return concat(parts)
end

-- send sends what stands for one command or several. It gives true; or nil and a
-- problem, after which the connection is of no use any more.
function Conn:send(command, deadline)
  local ms = left(deadline)
  if not ms then return nil, "timeout" end
  self.sock:settimeout(ms)
  local sent, err = self.sock:send(command)
  if not sent then return nil, err end
  return true
end

-- read is the next reply; nil, a text and true for an error that Redis answered with;
-- nil and a problem, after which the connection is of no use any more.
function Conn:read(deadline) return read(self, deadline, 1) end

-- ask is send and read.
function Conn:ask(command, deadline)
  local ok, err = self:send(command, deadline)
  if not ok then return nil, err end
  return read(self, deadline, 1)
end

-- keep puts a connection back for the next who asks.
function Conn:keep()
  if self.pos <= #self.buf then return self:close() end
  self.sock:setkeepalive(IDLE)
end

function Conn:close() self.sock:close() end

-- distrust closes a connection whose server is gone or cannot write any more: the
-- sentinels are asked anew.
function Conn:distrust()
  self:close()
  local redis = self.redis
  if redis.found == self.address then redis.found = nil end
end

-- address is where a server is, and what its pool is told by.
local function address(host, port, pool)
  return {
    host = host, port = port, name = host .. ":" .. port,
    options = { pool = concat({ "weir", host, port, pool }, "|"), pool_size = POOL, backlog = BACKLOG },
  }
end

-- greeting is the commands that sign in, and how many they are.
local function greeting(user, password, db, role)
  local text, n = "", 0
  local function add(...) text, n = text .. M.command(...), n + 1 end
  if user and user ~= "" then
    add("AUTH", user, password or "")
  elseif password and password ~= "" then
    add("AUTH", password)
  end
  if db and db > 0 then add("SELECT", db) end
  if role then add("ROLE") end
  return { text = text, n = n, role = role }
end

-- greet signs in on a new connection.
local function greet(c, g, deadline)
  if g.n == 0 then return true end
  local ok, err = c:send(g.text, deadline)
  for i = 1, ok and g.n or 0 do
    local v, problem, refused = c:read(deadline)
    local role = g.role and i == g.n
    if v == nil and not (role and refused) then
      err = err or (refused and "signing in: " or "") .. problem
      if not refused then break end
    elseif role and type(v) == "table" and v[1] ~= "master" then
      err = err or "it is no primary"
    end
  end
  return not err, err
end

-- connect is a connection that is signed in; or nil and a problem.
local function connect(redis, where, g, deadline)
  local sock, err = tcp()
  if not sock then return nil, err end
  local ms = left(deadline)
  if not ms then return nil, "timeout" end
  sock:settimeout(ms)
  local ok
  ok, err = sock:connect(where.host, where.port, where.options)
  if not ok then return nil, where.name .. ": " .. err end
  local c = setmetatable({ sock = sock, buf = "", pos = 1, redis = redis, address = where }, Conn)
  if sock:getreusedtimes() > 0 then return c end
  if redis.tls then
    ms = left(deadline)
    if ms then
      sock:settimeout(ms)
      ok, err = sock:sslhandshake(false, redis.server_name or where.host, redis.verify)
    else
      ok, err = nil, "timeout"
    end
  end
  if ok then ok, err = greet(c, g, deadline) end
  if ok then return c end
  sock:close()
  return nil, where.name .. ": " .. (err or "no TLS")
end

-- locate asks the sentinels where the primary is, the one that knew last first. Each
-- has its share of the time, and the primary one more.
local function locate(redis, deadline)
  local hosts, problem = redis.hosts, "no sentinel"
  local n = #hosts
  for i = 0, n - 1 do
    local at = (redis.at + i - 1) % n + 1
    local share = now() + max(1, (deadline - now()) / (n - i + 1))
    local c, err = connect(redis, hosts[at], redis.sentinel, share)
    if c then
      local v, refused
      v, err, refused = c:ask(redis.question, share)
      if v == nil and not refused then c:close() else c:keep() end
      if type(v) == "table" and type(v[1]) == "string" and tonumber(v[2]) then
        local host = find(v[1], ":", 1, true) and "[" .. v[1] .. "]" or v[1]
        redis.at = at
        redis.found = address(host, tonumber(v[2]), redis.pool)
        return redis.found
      end
      if v ~= nil then err = "it does not know a primary of that name" end
      err = hosts[at].name .. ": " .. err
    end
    problem = err
  end
  return nil, "sentinel " .. problem
end

-- open is a connection to Redis that is signed in; or nil and a problem.
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

-- M.new is the Redis of settings, edge.Redis; or nil and a problem. It connects when it
-- is asked.
function M.new(settings)
  local hosts = {}
  local sentinels = settings.primary and settings.primary ~= ""
  local user, db = settings.username or "", settings.db or 0
  local pool = concat({ user, db, settings.tls and "tls" or "", settings.verify and "verify" or "", settings.server_name or "" }, "|")
  for i, text in ipairs(type(settings.hosts) == "table" and settings.hosts or {}) do
    local host, port = tostring(text):match("^(.+):(%d+)$")
    if not host or tonumber(port) > 65535 then return nil, "weir: redis: hosts: want host:port, got " .. tostring(text) end
    hosts[i] = address(host, tonumber(port), sentinels and concat({ "sentinel", settings.sentinel_username or "", pool }, "|") or pool)
  end
  if #hosts == 0 then return nil, "weir: redis: hosts: want at least one" end
  local r = {
    hosts = hosts, at = 1, pool = pool,
    greeting = greeting(user, settings.password, db, sentinels),
    tls = settings.tls, verify = settings.verify or false,
    server_name = settings.server_name ~= "" and settings.server_name or nil,
  }
  if sentinels then
    r.sentinel = greeting(settings.sentinel_username, settings.sentinel_password)
    r.question = M.command("SENTINEL", "get-master-addr-by-name", settings.primary)
  end
  return setmetatable(r, Redis)
end

return M
