-- 10 requests of an address in 10 s, as a first try: INCR and, for a key that is new,
-- EXPIRE. INCR makes the key that it does not find and answers 1, never nil, so the part
-- for a key that is new is never reached, and the key never ends.

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
