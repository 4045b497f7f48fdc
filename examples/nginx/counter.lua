-- 10 requests per address in 10 s, first version: INCR and, for a new key, EXPIRE. INCR creates a
-- missing key and returns 1, never nil. So the branch for a new key never runs, and the key never
-- expires.

local connect = require("connect")

local red, err = connect.open()
if not red then
    return connect.refuse("no redis: " .. err)
end

local key = "count_rate_limit:ip:" .. ngx.var.remote_addr
local current = red:incr(key)
local limited = current and current ~= ngx.null and current > 10
if not limited and (not current or current == ngx.null) then
    red:set(key, 1)
    red:expire(key, 10)
end

if not limited then
    ngx.var.count = red:get(key)
end
connect.close(red)

if limited then
    connect.refuse("too many requests")
end
