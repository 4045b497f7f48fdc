-- A socket with one deadline for a whole call, which replaces the socket of the Redis client
-- library.
--
-- The library gives every step its own timeout, and nginx restarts it with every packet, so
-- a server that sends single bytes would never time out. The library also reads lines of any
-- length, creates lists of any size, and raises an error for a malformed number. This socket
-- uses the time that is left, and checks the head of a reply before the library reads it.

local clock = require "weir.clock"

local byte, find, sub = string.byte, string.find, string.sub
local concat, tonumber, type = table.concat, tonumber, type
local now = clock.now

local M = {}
local Socket = {}
Socket.__index = Socket

local CHUNK = 64 * 1024 -- maximum bytes of a line, and elements of a list
local MAX_TEXT = 64 * 1024 * 1024 -- bytes
local MAX_LISTS = 512 -- in one reply

-- of wraps a socket.
function M.of(sock)
  return setmetatable({ sock = sock, buf = "", pos = 1, deadline = 0, lists = 0 }, Socket)
end

-- begin starts a call with a deadline.
function Socket:begin(deadline) self.deadline, self.lists = deadline, 0 end

-- unread reports whether data was received that no call has read.
function Socket:unread() return self.pos <= #self.buf end

-- limit gives the next step the time that is left.
local function limit(s)
  local ms = s.deadline - now()
  if ms < 1 then return nil, "timeout" end
  s.sock:settimeout(ms)
  return true
end

-- more receives data. After the deadline it still returns data that arrived while the worker
-- was busy: otherwise a client could bypass open policies by sending a burst.
local function more(s)
  if limit(s) then
    local data, err = s.sock:receiveany(CHUNK)
    if data or err ~= "timeout" then return data, err end
  end
  s.sock:settimeout(1)
  return s.sock:receiveany(CHUNK)
end

-- check returns a line if the library can read on after it.
local function check(s, text)
  local kind = byte(text)
  if kind ~= 36 and kind ~= 42 and kind ~= 58 then return text end -- $ * :
  local n = #text < 22 and find(text, "^.%-?%d+$") and tonumber(sub(text, 2))
  if not n then return nil, "a reply that is not one of Redis" end
  if kind == 58 then return text end
  if n < -1 or n > (kind == 36 and MAX_TEXT or CHUNK) then return nil, "a reply of the size " .. n end
  if kind == 42 then
    s.lists = s.lists + 1
    if s.lists > MAX_LISTS then return nil, "a reply of too many lists" end
  end
  return text
end

local function line(s)
  while true do
    local at = find(s.buf, "\r\n", s.pos, true)
    if at then
      local text = sub(s.buf, s.pos, at - 1)
      s.pos = at + 2
      return check(s, text)
    end
    if #s.buf - s.pos > CHUNK then return nil, "a reply without an end of its line" end
    local data, err = more(s)
    if not data then return nil, err end
    s.buf, s.pos = sub(s.buf, s.pos) .. data, 1
  end
end

-- receive returns a line without its end, or size bytes.
function Socket:receive(size)
  if type(size) ~= "number" then return line(self) end
  local have = #self.buf - self.pos + 1
  if have < size then
    local parts, n = { sub(self.buf, self.pos) }, 1
    while have < size do
      local data, err = more(self)
      if not data then return nil, err end
      n = n + 1
      parts[n], have = data, have + #data
    end
    self.buf, self.pos = concat(parts), 1
  end
  local from = self.pos
  self.pos = from + size
  return sub(self.buf, from, from + size - 1)
end

function Socket:connect(...)
  local ok, err = limit(self)
  if not ok then return nil, err end
  return self.sock:connect(...)
end

function Socket:sslhandshake(...)
  local ok, err = limit(self)
  if not ok then return nil, err end
  return self.sock:sslhandshake(...)
end

-- send sends a text, or a list of pieces. Flat lists are joined here, which is faster than
-- in nginx.
function Socket:send(data)
  local ok, err = limit(self)
  if not ok then return nil, err end
  if type(data) == "table" and type(data[1]) == "string" then data = concat(data) end
  return self.sock:send(data)
end

function Socket:setkeepalive(...) return self.sock:setkeepalive(...) end

function Socket:getreusedtimes() return self.sock:getreusedtimes() end

function Socket:close() return self.sock:close() end

return M
