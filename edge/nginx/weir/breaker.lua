-- A circuit breaker for Redis, like that of package failover: after consecutive failures
-- it opens, so that an outage does not cost every request its deadline. After a cool-down
-- a timer sends a probe, with more time than a request has, in which to connect and sign
-- in. A successful probe closes the breaker.

local clock = require "weir.clock"

-- ERR is the lowest level that the error_log of most distributions records.
local timer, log, ERR, NOTICE = ngx.timer.at, ngx.log, ngx.ERR, ngx.NOTICE
local now = clock.now

local M = {}
local Breaker = {}
Breaker.__index = Breaker

local FAILURES = 5
local COOLDOWN = 1000 -- ms
local LOST = 1000 -- ms after which a timer must have been dropped by nginx: see lua_max_running_timers
local REMIND = 30000 -- ms between log lines about failures that do not open the breaker

-- new returns a closed breaker. probe(deadline) returns true, or nil and an error.
function M.new(probe, deadline)
  return setmetatable({
    probe = probe, timeout = deadline > COOLDOWN and deadline or COOLDOWN,
    generation = 0, failed = 0, open = false, retry = 0, lost = 0, why = nil,
    logged = nil, -- when such a line was written
  }, Breaker)
end

local function trip(b, problem)
  b.retry, b.failed = now() + COOLDOWN, 0
  b.why = "circuit breaker open for 1s after " .. FAILURES .. " consecutive failures, the last: " .. problem
end

local function probe(premature, b)
  local ok, problem = nil, "the worker shuts down"
  b.lost = now() + 2 * b.timeout
  if not premature then
    local fine
    fine, ok, problem = pcall(b.probe, now() + b.timeout)
    if not fine then ok, problem = nil, ok end
  end
  b.lost = 0
  if ok then
    b.generation, b.open, b.failed = b.generation + 1, false, 0
    log(NOTICE, "weir: redis: circuit breaker closed")
  else
    trip(b, problem)
  end
end

-- enter returns the generation of a call that may be made; or nil and why it may not.
function Breaker:enter()
  if not self.open then return self.generation end
  local at = now()
  if at >= self.retry and at >= self.lost then
    if timer(0, probe, self) then self.lost = at + LOST end
  end
  return nil, self.why
end

-- succeeded records a call with an answer.
function Breaker:succeeded(generation)
  if generation == self.generation then self.failed = 0 end
end

-- fail records a call without an answer. A call of an earlier generation is ignored.
function Breaker:fail(generation, problem)
  if generation ~= self.generation then return end
  self.failed = self.failed + 1
  if self.failed < FAILURES then
    local at = now()
    if not self.logged or at - self.logged >= REMIND then
      self.logged = at
      log(ERR, "weir: no decision: ", problem)
    end
    return
  end
  self.generation, self.open = generation + 1, true
  trip(self, problem)
  log(ERR, "weir: ", self.why)
end

return M
