-- 10 requests of an address in 10 s, a repair of the first try: look first, and count
-- afterwards. A request between the read and the count of another one reads the old number.

local connect = require("connect")

local red, err = connect.open()
if not red then
    return connect.refuse("no redis: " .. err)
end

local key = "count_rate_limit:ip:" .. ngx.var.remote_addr
local current = red:get(key)
local limited = current and current ~= ngx.null and tonumber(current) >= 10
if not limited then
    if not current or current == ngx.null then
        red:set(key, 1)
        red:expire(key, 10)
        ngx.var.count = 1
    else
        ngx.var.count = red:incr(key)
    end
end
connect.close(red)

if limited then
    connect.refuse("too many requests")
end
