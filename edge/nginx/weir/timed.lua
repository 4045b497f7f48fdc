-- A socket with one deadline for all that is done with it, for the Redis client library
-- to use instead of its own.
--
-- The library gives every step a timeout of its own, and nginx begins it anew with every
-- packet: a server that sends a byte now and then would never be late. The library also
-- reads a line of any length, makes a list of any size, and raises an error where a
-- number should be. So this reads what has come, each time for as long as is left, and
-- looks at the head of a reply before the library does.

local clock = require "weir.clock"

local byte, find, sub = string.byte, string.find, string.sub
local concat, tonumber, type = table.concat, tonumber, type
local now = clock.now

local M = {}
local Timed = {}
Timed.__index = Timed

local CHUNK = 64 * 1024 -- bytes of a line, and members of a list
local MOST = 64 * 1024 * 1024 -- bytes of a text
local LISTS = 512 -- in one reply

-- M.of is a socket around another one.
function M.of(sock)
  return setmetatable({ sock = sock, buf = "", pos = 1, deadline = 0, lists = 0 }, Timed)
end

-- begin begins a question that has to be answered by an instant.
function Timed:begin(deadline) self.deadline, self.lists = deadline, 0 end

-- unread tells whether more has come than was asked for.
function Timed:unread() return self.pos <= #self.buf end

-- hurry gives what is done next the time that is left.
local function hurry(s)
  local ms = s.deadline - now()
  if ms < 1 then return nil, "timeout" end
  s.sock:settimeout(ms)
  return true
end

-- more is what has come, even if it came while this worker was about other things and the
-- deadline is over: whoever sends very many requests at once would be let through else, by
-- policies that are open.
local function more(s)
  if hurry(s) then
    local data, err = s.sock:receiveany(CHUNK)
    if data or err ~= "timeout" then return data, err end
  end
  s.sock:settimeout(1)
  return s.sock:receiveany(CHUNK)
end

-- check lets a line pass if the library can read on by it.
local function check(s, text)
  local kind = byte(text)
  if kind ~= 36 and kind ~= 42 and kind ~= 58 then return text end -- $ * :
  local n = #text < 22 and find(text, "^.%-?%d+$") and tonumber(sub(text, 2))
  if not n then return nil, "a reply that is not one of Redis" end
  if kind == 58 then return text end
  if n < -1 or n > (kind == 36 and MOST or CHUNK) then return nil, "a reply of the size " .. n end
  if kind == 42 then
    s.lists = s.lists + 1
    if s.lists > LISTS then return nil, "a reply of too many lists" end
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

-- receive is a line without its end, or so many bytes.
function Timed:receive(size)
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

function Timed:connect(...)
  local ok, err = hurry(self)
  if not ok then return nil, err end
  return self.sock:connect(...)
end

function Timed:sslhandshake(...)
  local ok, err = hurry(self)
  if not ok then return nil, err end
  return self.sock:sslhandshake(...)
end

-- send sends what the library gives: a text or a list of pieces, in which there may be
-- lists. Those of a list are put together here, which costs less than nginx takes for it.
function Timed:send(data)
  local ok, err = hurry(self)
  if not ok then return nil, err end
  if type(data) == "table" and type(data[1]) == "string" then data = concat(data) end
  return self.sock:send(data)
end

function Timed:setkeepalive(...) return self.sock:setkeepalive(...) end

function Timed:getreusedtimes() return self.sock:getreusedtimes() end

function Timed:close() return self.sock:close() end

return M
