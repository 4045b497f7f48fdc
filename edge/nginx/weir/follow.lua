-- Published plans: every worker looks at what `weir apply` has put into Redis and takes
-- it over when it is another, without a reload. As cmd/weir does: another id is another
-- Redis, or one that lost what it knew; what is lost altogether is no news.

local cjson = require "cjson.safe"
local clock = require "weir.clock"

local every, timer, log, exiting = ngx.timer.every, ngx.timer.at, ngx.log, ngx.worker.exiting
local ERR, NOTICE = ngx.ERR, ngx.NOTICE -- ERR is the least that most error_logs have
local pcall, random, type = pcall, math.random, type
local now = clock.now

local M = {}

local KEY = "weir:1:policies"
local EVERY = 0.4 -- s
local PATIENCE = 1000 -- ms that an answer may take
local REMIND = 30000 -- ms

-- In one step, so that what it gives belongs together: the version, its id and, unless
-- both are known, its plan.
local SCRIPT = [[
local function read(field) return redis.call('HGET', KEYS[1], field) or '' end
local version, id = read('version'), read('id')
if version == '' or version == ARGV[1] and id == ARGV[2] then return { version, id } end
return { version, id, read('edge') }
]]

-- check is why a text is not the plan of a version, or nil.
local function check(text, version)
  if text == "" then return "it was published without one: apply it with this Weir" end
  local plan = cjson.decode(text)
  if type(plan) ~= "table" then return "it is not JSON" end
  if plan.version ~= tonumber(version) then
    return "it is of version " .. tostring(plan.version) .. ": apply it with this Weir"
  end
  if plan.error then return tostring(plan.error) end
end

-- M.start follows what is published, over the connections of a weir.redis. adopt(text)
-- is told of every new plan and gives true, or nil and why it cannot be taken over: then
-- the one before stays. It gives the state, for those who ask: version, the one that was
-- adopted, and trouble, nil if all is well. It looks every so many seconds, or 0.4, and
-- calls refuse, if it is given, for what is published and is no plan for nginx.
function M.start(connections, adopt, seconds, refuse)
  local s = { version = nil, trouble = nil }
  local seen, seen_id, refused = "", "", nil -- refused: why seen was not adopted
  local told, busy, looked = nil, false, 0

  local function trouble(text)
    s.trouble = text
    if text then
      if told and now() - told < REMIND then return end
      told = now()
      log(ERR, "weir: following what is published: ", text)
    elseif told then
      told = nil
      log(NOTICE, "weir: following what is published: all is well again")
    end
  end

  local function ask(version, id)
    local deadline = now() + PATIENCE
    local conn, problem = connections:open(deadline)
    if not conn then return nil, problem end
    local reply, refusal
    reply, problem, refusal = conn:ask(deadline, "eval", SCRIPT, 1, KEY, version, id)
    if reply == nil and not refusal then
      conn:distrust()
    else
      conn:keep()
    end
    if reply == nil then return nil, conn.address.name .. ": " .. problem end
    return reply
  end

  local function news(version, id, text)
    seen, seen_id, looked = version, id, now()
    local problem = check(text, version)
    if problem then
      if refuse then refuse() end
    else
      local fine, ok, err = pcall(adopt, text)
      if not fine then problem = ok elseif not ok then problem = err or "it was refused" end
    end
    refused = problem and "version " .. version .. ": " .. tostring(problem):sub(1, 500)
    if not refused then
      s.version = tonumber(version)
      log(NOTICE, "weir: version ", version, " of the policies is in force")
    end
  end

  local function look()
    if busy then return end
    busy = true
    -- What was refused is looked at again now and then: somebody may have put it right.
    local again = refused and now() - looked >= REMIND
    local fine, reply, problem = pcall(ask, again and "" or seen, seen_id)
    busy = false
    if not fine then return trouble(tostring(reply)) end
    if not reply then return trouble(problem) end
    if type(reply) ~= "table" or type(reply[1]) ~= "string" or type(reply[2]) ~= "string" then
      return trouble("Redis answered what is not a version")
    end
    if reply[1] ~= "" and not reply[1]:find("^[1-9]%d*$") then
      return trouble("field version of " .. KEY .. ": want a number, got " .. reply[1]:sub(1, 40))
    end
    if type(reply[3]) == "string" then news(reply[1], reply[2], reply[3]) end
    trouble(refused)
  end

  local function tick(premature)
    if premature or exiting() then return end
    look()
  end

  local ok, err = timer(0, tick)
  -- Not all workers at the same instants.
  if ok then ok, err = every((seconds or EVERY) * (0.95 + 0.1 * random()), tick) end
  if not ok then return nil, "weir: no timer to follow what is published by: " .. err end
  return s
end

return M
