-- The report of this nginx to weir serve: the version of its policies, and their decisions per
-- second. It is in the Redis of the limits, in the form of Go's package
-- guard/instances. The first worker reports for all.

local cjson = require "cjson.safe"
local clock = require "weir.clock"
local crypto = require "weir.crypto"
local metrics = require "weir.metrics"

local log = ngx.log
local NOTICE = ngx.NOTICE
local now = clock.now

local M = {}

local INDEX = "weir:1:{functions}"
local EVERY = 2 -- s
local WINDOW = 10000 -- ms, over which rates are computed
local TIMEOUT = 1000 -- ms
local TTL, MAX, STALE = "600000", "1000", "10000" -- as in package instances

-- The script of package instances that puts a process on the list.
local PUT = [[
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - ARGV[3]))
redis.call('ZREM', KEYS[1], ARGV[1])
if redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') >= tonumber(ARGV[4]) then
  local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if tonumber(oldest[2]) > now - ARGV[5] then
    return 0
  end
  redis.call('ZREM', KEYS[1], oldest[1])
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
]]

-- hostname returns the name of the machine, or "".
local function hostname()
  local file = io.open("/proc/sys/kernel/hostname")
  local name = file and file:read("*l")
  if file then file:close() end
  return (name or ""):sub(1, 255)
end

-- identity returns the id of this nginx, which a reload keeps.
local function identity()
  local dict = ngx.shared.weir
  dict:safe_add("report id", ngx.md5(crypto.id()):upper())
  return dict:get("report id")
end

-- rates returns the decisions per second of each policy between two samples.
local function rates(before, after)
  local seconds, all = (after.at - before.at) / 1000, {}
  for name, n in pairs(after.totals) do
    local was, one = before.totals[name] or {}, { name = name }
    for what, count in pairs(n) do one[what] = math.max(0, (count - (was[what] or 0)) / seconds) end
    all[#all + 1] = one
  end
  return all
end

-- start reports over the connections of a weir.redis. plan returns the plan in use, trouble the
-- reason why it is not the newest, or nil, and adjusts whether adjustments of keys are in force.
function M.start(connections, plan, trouble, adjusts)
  if ngx.worker.id() ~= 0 then return true end
  local id, host, samples, failed = nil, hostname(), {}, nil

  local function record()
    local current = plan()
    local sample = { at = now(), totals = metrics.totals(current) }
    while samples[2] and sample.at - samples[2].at >= WINDOW do table.remove(samples, 1) end
    local report = {
      id = id, service = "nginx", host = host, pid = ngx.worker.pid(), version = current.version or 0, problem = trouble(),
      adjusts = adjusts() or nil,
    }
    if samples[1] and sample.at > samples[1].at then
      local all = rates(samples[1], sample)
      if #all > 0 then report.policies = all end -- an empty table would be an object
    end
    samples[#samples + 1] = sample
    return cjson.encode(report)
  end

  local function send()
    id = id or identity()
    if not id then return "the dictionary is full" end
    local text = record()
    local deadline = now() + TIMEOUT
    local conn, problem = connections:open(deadline)
    if not conn then return problem end
    local reply, refusal
    reply, problem, refusal = conn:ask(deadline, "eval", PUT, 2, INDEX, INDEX .. ":" .. id, id, text, TTL, MAX, STALE)
    if reply == nil and not refusal then
      conn:discard()
    else
      conn:keep()
    end
    if reply == nil then return problem end
    if reply ~= 1 then return "the list of programs is full" end
  end

  local function tick()
    local _, problem = pcall(send) -- an error is a text, too
    if problem and problem ~= failed then log(NOTICE, "weir: report to weir serve: ", problem) end
    failed = problem
  end

  local ok, err = clock.poll(EVERY, tick)
  if not ok then return nil, "weir: report: " .. err end
  return true
end

return M
