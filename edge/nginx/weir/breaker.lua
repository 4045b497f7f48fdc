-- Leaves Redis alone for a moment after failures in a row, as package failover does, so
-- that one that is gone does not cost every request its whole deadline. Then a timer
-- tries, with more time than a request has, in which to connect and sign in; requests
-- ask again once that went well.

local clock = require "weir.clock"

-- ERR is the least that the error_log of most distributions has.
local timer, log, ERR, NOTICE = ngx.timer.at, ngx.log, ngx.ERR, ngx.NOTICE
local now = clock.now

local M = {}
local Breaker = {}
Breaker.__index = Breaker

local FAILURES = 5
local COOLDOWN = 1000 -- ms
local LOST = 1000 -- ms after which a timer is one that nginx dropped: see lua_max_running_timers
local REMIND = 30000 -- ms between lines about failures that are too few to leave it alone

-- M.new makes a breaker. try(deadline) gives true, or nil and a problem.
function M.new(try, deadline)
  return setmetatable({
    try = try, patience = deadline > COOLDOWN and deadline or COOLDOWN,
    era = 0, failed = 0, away = false, back = 0, lost = 0, why = nil,
    told = nil, -- when such a line was written
  }, Breaker)
end

local function leave(b, problem)
  b.back, b.failed = now() + COOLDOWN, 0
  b.why = "left alone for 1s after " .. FAILURES .. " failures in a row, the last: " .. problem
end

local function try(premature, b)
  local ok, problem = nil, "the worker ends"
  b.lost = now() + 2 * b.patience
  if not premature then
    local fine
    fine, ok, problem = pcall(b.try, now() + b.patience)
    if not fine then ok, problem = nil, ok end
  end
  b.lost = 0
  if ok then
    b.era, b.away, b.failed = b.era + 1, false, 0
    log(NOTICE, "weir: redis: asked again")
  else
    leave(b, problem)
  end
end

-- enter gives the era in which Redis is asked; or nil and why it is not.
function Breaker:enter()
  if not self.away then return self.era end
  local at = now()
  if at >= self.back and at >= self.lost then
    if timer(0, try, self) then self.lost = at + LOST end
  end
  return nil, self.why
end

-- succeeded is told of an answer to what was asked.
function Breaker:succeeded(era)
  if era == self.era then self.failed = 0 end
end

-- fail is told of a question without an answer. What a question of another era found
-- out says nothing about this one.
function Breaker:fail(era, problem)
  if era ~= self.era then return end
  self.failed = self.failed + 1
  if self.failed < FAILURES then
    local at = now()
    if not self.told or at - self.told >= REMIND then
      self.told = at
      log(ERR, "weir: no decision: ", problem)
    end
    return
  end
  self.era, self.away = era + 1, true
  leave(self, problem)
  log(ERR, "weir: ", self.why)
end

return M
