-- The worker's clock in ms: monotonic where nginx's Lua offers that. And what a worker does again
-- and again.

local timer, every, exiting = ngx.timer.at, ngx.timer.every, ngx.worker.exiting
local ngx_now, random = ngx.now, math.random

local M = { now = function() return ngx_now() * 1000 end }

local found, time = pcall(require, "resty.core.time")
if found and type(time) == "table" and pcall(function() return time.monotonic_msec() + 0 end) then
  M.now = time.monotonic_msec
end

-- poll calls f at once and then about every given number of seconds, which differs by worker, so
-- that they do not call together, until the worker exits. It returns true, or nil and an error.
function M.poll(seconds, f)
  local function tick(premature)
    if not premature and not exiting() then f() end
  end
  local ok, err = timer(0, tick)
  if ok then ok, err = every(seconds * (0.95 + 0.1 * random()), tick) end
  if not ok then return nil, "no timer: " .. err end
  return true
end

return M
