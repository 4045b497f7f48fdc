-- Published plans: every worker polls Redis for what `weir apply` published, and uses a new
-- plan without a reload, as cmd/weir does. A different id means a different Redis, or one that
-- lost its data. If nothing is published any more, the plan in use stays.

local cjson = require "cjson.safe"
local clock = require "weir.clock"

local log = ngx.log
local ERR, NOTICE = ngx.ERR, ngx.NOTICE -- ERR is the least that most error_logs have
local pcall, type = pcall, type
local now = clock.now

local M = {}

local KEY = "weir:1:policies"
local EVERY = 0.4 -- s
local TIMEOUT = 1000 -- ms
local REMIND = 30000 -- ms

-- Returns the version, its id and, unless both are known, its plan, in one step.
local SCRIPT = [[
local function read(field) return redis.call('HGET', KEYS[1], field) or '' end
local version, id = read('version'), read('id')
if version == '' or version == ARGV[1] and id == ARGV[2] then return { version, id } end
return { version, id, read('edge') }
]]

-- check returns why a text is not the plan of a version, or nil.
local function check(text, version)
  if text == "" then return "it has no plan for nginx: publish it with this version of weir" end
  local plan = cjson.decode(text)
  if type(plan) ~= "table" then return "its plan is not JSON" end
  if plan.version ~= tonumber(version) then
    return "its plan has version " .. tostring(plan.version) .. ": publish it with this version of weir"
  end
  if plan.error then return tostring(plan.error) end
end

-- start polls for published plans over the connections of a weir.redis, every given number
-- of seconds or every 0.4. adopt(text) is called with every new plan and returns true, or
-- nil and an error, which keeps the plan in use. refuse, if given, is called for a version
-- without a plan for nginx. start returns the state: the version that was adopted, and
-- trouble, the last error or nil.
function M.start(connections, adopt, seconds, refuse)
  local s = { version = nil, trouble = nil }
  local seen, seen_id, refused = "", "", nil -- refused: why that version was not adopted
  local logged, busy, looked = nil, false, 0

  local function trouble(text)
    s.trouble = text
    if text then
      if logged and now() - logged < REMIND then return end
      logged = now()
      log(ERR, "weir: published policies: ", text)
    elseif logged then
      logged = nil
      log(NOTICE, "weir: published policies: recovered")
    end
  end

  local function ask(version, id)
    local deadline = now() + TIMEOUT
    local conn, problem = connections:open(deadline)
    if not conn then return nil, problem end
    local reply, refusal
    reply, problem, refusal = conn:ask(deadline, "eval", SCRIPT, 1, KEY, version, id)
    if reply == nil and not refusal then
      conn:discard()
    else
      conn:keep()
    end
    if reply == nil then return nil, conn.address.name .. ": " .. problem end
    return reply
  end

  local function change(version, id, text)
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
      log(NOTICE, "weir: published policies: using version ", version)
    end
  end

  local function look()
    if busy then return end
    busy = true
    -- A refused version is read again from time to time: an operator may have repaired it.
    local again = refused and now() - looked >= REMIND
    local fine, reply, problem = pcall(ask, again and "" or seen, seen_id)
    busy = false
    if not fine then return trouble(tostring(reply)) end
    if not reply then return trouble(problem) end
    if type(reply) ~= "table" or type(reply[1]) ~= "string" or type(reply[2]) ~= "string" then
      return trouble("the reply has no version")
    end
    if reply[1] ~= "" and not reply[1]:find("^[1-9]%d*$") then
      return trouble("field version of " .. KEY .. ": want a number, got " .. reply[1]:sub(1, 40))
    end
    if type(reply[3]) == "string" then change(reply[1], reply[2], reply[3]) end
    trouble(refused)
  end

  local ok, err = clock.poll(seconds or EVERY, look)
  if not ok then return nil, "weir: published policies: " .. err end
  return s
end

return M
