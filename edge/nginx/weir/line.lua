-- Those who wait for the same key do so one behind the other, in this worker. Twin of
-- internal/line.

local semaphore = require "ngx.semaphore"

local M = {}

-- MOST is how many may wait in a worker at a time.
local MOST = 1024

local size, queues = 0, {}

-- awaited reports whether somebody waits for a key.
function M.awaited(key) return queues[key] ~= nil end

-- waiting is how many wait.
function M.waiting() return size end

-- enter is a place at the end of the queue of a key, or nil if too many wait.
function M.enter(key)
  if size >= MOST then return nil end
  local q = queues[key]
  if not q then
    q = { first = nil, last = nil }
    queues[key] = q
  end
  local turn = { key = key, before = q.last, behind = nil }
  if q.last then
    q.last.behind = turn
    turn.come = semaphore.new(0)
  else
    q.first = turn
  end
  q.last = turn
  size = size + 1
  return turn
end

-- leave gives a place up, wherever it is, and calls the one behind it if it was first. Nil
-- is no place, and leaving again does nothing.
function M.leave(turn)
  if not turn or turn.left then return end
  turn.left = true
  local q = queues[turn.key]
  local first, behind = q.first == turn, turn.behind
  if turn.before then turn.before.behind = behind else q.first = behind end
  if behind then behind.before = turn.before else q.last = turn.before end
  size = size - 1
  if not q.first then
    queues[turn.key] = nil
  elseif first then
    behind.come:post(1)
  end
end

-- await waits for a turn, for at most so many seconds, and reports whether it came.
function M.await(turn, seconds)
  if queues[turn.key].first == turn then return true end
  if seconds <= 0 then return false end
  turn.come:wait(math.ceil(seconds * 1000) / 1000)
  return queues[turn.key].first == turn
end

return M
