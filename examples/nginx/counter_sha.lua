-- 10 requests of an address in 10 s, as a script in Redis: counter.redis.lua, which
-- was loaded with redis-cli, and whose SHA was copied here.

local connect = require("connect")

local script = "5b34fa0d521a0c24155b177de4820164a300f282"

local red, err = connect.open()
if not red then
    return connect.refuse("no redis: " .. err)
end

local count, err = red:evalsha(script, 1, "ip:" .. ngx.var.remote_addr)
connect.close(red)

if not count or count == ngx.null then
    return connect.refuse(err)
end
if count == 0 then
    return connect.refuse("too many requests")
end
ngx.var.count = count
