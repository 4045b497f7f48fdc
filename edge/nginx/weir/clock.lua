-- The worker's clock in ms: monotonic where nginx's Lua offers that.

local found, time = pcall(require, "resty.core.time")
if found and type(time) == "table" and pcall(function() return time.monotonic_msec() + 0 end) then
  return { now = time.monotonic_msec }
end

local ngx_now = ngx.now
return { now = function() return ngx_now() * 1000 end }
