-- A connection to Redis, as the three counters share it.

local found, redis = pcall(require, "resty.redis") -- OpenResty
if not found then
    redis = require("nginx.redis") -- Debian
end

local M = {}

-- A connection, or nil and why there is none.
function M.open()
    local red = redis:new()
    red:set_timeout(1000)
    local ok, err = red:connect("127.0.0.1", 6379)
    if not ok then
        return nil, err
    end
    return red
end

-- Puts a connection back into the pool of the worker.
function M.close(red)
    red:set_keepalive(10000, 100)
end

-- The response to a denied request. Its status is 200, which is one of the errors.
function M.refuse(message)
    ngx.say('{"resp_code":-1,"resp_msg":"' .. message .. '"}')
end

return M
