-- The entry points that nginx calls: functions of the module "weir". README.md documents the
-- phase of each. After an error in this Lua a request is decided by on_store_error.

local adjustments = require "weir.adjustments"
local cjson = require "cjson.safe"
local defer = require "weir.defer"
local enforce = require "weir.enforce"
local fields = require "weir.fields"
local follow = require "weir.follow"
local metrics = require "weir.metrics"
local plans = require "weir.plan"
local attributes = require "weir.attributes"
local report = require "weir.report"
local response = require "weir.response"
local store = require "weir.store"

local ngx, log, ERR = ngx, ngx.log, ngx.ERR
local exit, is_internal = ngx.exit, ngx.req.is_internal

local M = {}

-- State of this worker. init sets settings and current in the master.
local settings, current, redis, queue, published, adjusted

-- The admissions in progress, by connection and number of the request in it. An internal
-- redirect, such as error_page or try_files, clears ngx.ctx. older holds those from before
-- the table was full, which happens only if log is not called.
local admissions, older, count = {}, {}, 0
local MAX_ADMISSIONS = 32768

local function fail(text) error("weir: " .. text, 0) end

-- origin identifies the Redis that published plans come from.
local function origin() return cjson.encode(settings.redis.hosts) .. tostring(settings.redis.db or 0) end

-- share lets new workers start with a published plan.
local function share(json)
  local dict = ngx.shared.weir
  if #json > dict:capacity() / 4 or not dict:safe_set("published", json) then return dict:delete("published") end
  dict:safe_set("published of", origin())
end

-- adopt replaces the plan in use by one in JSON, or returns nil and an error.
local function adopt(json)
  local plan, err = plans.read(json)
  if not plan then
    metrics.reloaded(false)
    return nil, err
  end
  redis.adopt(plan)
  current = plan
  metrics.reloaded(true)
  metrics.keep(plan)
  share(json)
  return true
end

-- init reads edge.Settings and an edge.Plan, in JSON. An error prevents nginx from starting
-- or reloading.
function M.init(settings_json, plan_json)
  if not ngx.shared.weir then fail("lua_shared_dict weir: want one of 10m or more") end
  local s, err = cjson.decode(settings_json or "")
  if type(s) ~= "table" then fail("settings: " .. tostring(err or "want an object")) end
  if s.format ~= plans.FORMAT then
    fail("settings: format " .. tostring(s.format) .. ": want " .. plans.FORMAT .. ": made by another version of weir: run `weir edge lua` and `weir edge nginx` of one version")
  end
  if type(s.redis) ~= "table" or type(s.fields) ~= "table" then fail("settings: want objects redis and fields") end
  s.forms, err = fields.read(s.fields)
  if not s.forms then fail("settings: " .. err) end
  local plan, ok
  plan, err = plans.read(plan_json or "")
  if not plan then fail(err) end
  ok, err = store.new(s, plan)
  if not ok then fail(err) end
  settings, current = s, plan
end

-- trouble returns why the newest policies or some adjustments of keys are not in force, or nil.
local function trouble() return published and published.trouble or adjusted.problem end

-- start prepares a worker.
function M.start()
  if not settings then return log(ERR, "weir: init was not called in init_by_lua") end
  local err
  redis, err = store.new(settings, current)
  if not redis then return log(ERR, "weir: ", err) end
  queue = defer.new(redis)
  ngx.timer.every(1, queue.wake)
  metrics.start(queue)
  if settings.follow then
    local dict = ngx.shared.weir
    local before = dict:get("published of") == origin() and dict:get("published")
    if before then adopt(before) end
    published, err = follow.start(redis.redis, adopt, nil, function() metrics.reloaded(false) end)
    if not published then return log(ERR, err) end
  end
  adjusted, err = adjustments.start(redis.redis, origin())
  if not adjusted then return log(ERR, err) end
  local ok
  ok, err = report.start(redis.redis, function() return current end, trouble, function() return adjusted.known end)
  if not ok then log(ERR, err) end
end

local logged = 0

-- complain writes an error to the log, at most one per second.
local function complain(err)
  local now = ngx.now()
  if now - logged >= 1 then
    logged = now
    log(ERR, "weir: ", err)
  end
end

-- fault records an error of this Lua.
local function fault(err)
  metrics.fault()
  complain(err)
end

local function name() return ngx.var.connection .. ":" .. ngx.var.connection_requests end

-- find returns the admission of this request, or nil.
local function find()
  local adm = ngx.ctx.weir
  if adm or not is_internal() then return adm end
  local id = name()
  adm = admissions[id] or older[id]
  ngx.ctx.weir = adm
  return adm
end

-- begin creates the admission of this request. log removes it.
local function begin()
  local adm = enforce.begin(current, redis, queue)
  adm.name = name()
  if count >= MAX_ADMISSIONS then
    older, admissions, count = admissions, {}, 0
    fault("more than " .. MAX_ADMISSIONS .. " requests have not ended: is there a log_by_lua that does not call log?")
  end
  admissions[adm.name], count = adm, count + 1
  ngx.ctx.weir = adm
  return adm
end

local function run(adm)
  if not redis then error("start was not called in init_worker_by_lua", 0) end
  enforce.run(adm, attributes.new())
end

-- decide decides this request, once. It returns if the request passes and responds otherwise.
function M.decide()
  if find() then return end
  local adm = begin()
  local ok, err = pcall(run, adm)
  if not ok then
    fault(err)
    adm.enforced = 0
    adm.outcome = current and enforce.undecided(current.policies, #current.policies) or "closed"
    adm.passed = adm.outcome == "open"
  elseif adm.excess then
    complain(adm.excess)
  end
  if adm.outcome == "admitted" or adm.outcome == "open" then return end -- header_filter sets the fields
  ok, err = pcall(response.send, settings, adm)
  fault(err) -- send ends the request unless it fails
  exit(503)
end

-- access calls decide and ends the access phase: nothing after it in the block runs. It
-- declines to decide who may enter, so that "satisfy any" still requires another module to
-- allow the request.
function M.access()
  M.decide()
  return exit(ngx.DECLINED)
end

-- header_filter sets the response fields of a request that passes, in place of those of an upstream.
function M.header_filter()
  if ngx.is_subrequest then return end
  local adm = find()
  if not adm or not adm.outcome or adm.ended then return end
  local ok, err = pcall(response.describe, settings, adm)
  if not ok then fault(err) end
end

local function leave(adm)
  local status = ngx.status
  enforce.exit(adm, {
    status = status,
    -- nginx itself answers a request body that was cut off, not the upstream.
    no_response = status == 499 or status == 0
      or (status == 400 or status == 408) and (ngx.var.upstream_status or "") == "",
  })
end

-- log ends what the request holds.
function M.log()
  if ngx.is_subrequest then return end
  local adm = find()
  if not adm then return end
  if admissions[adm.name] then
    admissions[adm.name], count = nil, count - 1
  else
    older[adm.name] = nil
  end
  local ok, err = pcall(leave, adm)
  if not ok then fault(err) end
end

-- metrics responds with the counts of all workers, for Prometheus.
function M.metrics()
  ngx.header["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8"
  ngx.print(metrics.text(current, {
    { "weir_store_breaker_open", "1 while the circuit breaker of the store is open, else 0.", redis and redis.unavailable() and 1 or 0 },
    { "weir_policies_last_reload_successful", "1 if the last policies are in use, 0 if they were refused.",
      published and published.trouble and 0 or 1 },
  }))
end

return M
