-- What nginx calls. README.md says in which phase; each is a function of the module
-- "weir". An error in here is never the client's: such a request is decided as one about
-- which the store made no decision.

local cjson = require "cjson.safe"
local answer = require "weir.answer"
local fields = require "weir.fields"
local follow = require "weir.follow"
local gate = require "weir.gate"
local later = require "weir.later"
local metrics = require "weir.metrics"
local plans = require "weir.plan"
local request = require "weir.request"
local store = require "weir.store"

local ngx, log, ERR = ngx, ngx.log, ngx.ERR
local exit, is_internal = ngx.exit, ngx.req.is_internal

local M = {}

local FORMAT = 1

-- Of this worker; init fills in what the master knows before there are workers.
local settings, current, redis, queue, published

-- The passes of requests that run, by connection and number of the request in it. ngx.ctx
-- alone would forget at an internal redirect, as of error_page and try_files, that a
-- request was decided. former is those from before the table was full, which it is only
-- if log is not called.
local passes, former, count = {}, {}, 0
local MOST = 32768

local function fail(text) error("weir: " .. text, 0) end

-- plan_of_worker is the plan in force.
function M.plan_of_worker() return current end

gate.latest = M.plan_of_worker

-- origin names the Redis that published plans come from.
local function origin() return cjson.encode(settings.redis.hosts) .. tostring(settings.redis.db or 0) end

-- keep has workers that start later begin with a published plan.
local function keep(json)
  local dict = ngx.shared.weir
  if #json > dict:capacity() / 4 or not dict:safe_set("published", json) then return dict:delete("published") end
  dict:safe_set("published of", origin())
end

-- adopt puts a plan in force, in JSON, that follows the one before; or gives nil and why
-- not.
local function adopt(json)
  local plan, err = plans.read(json)
  if not plan then
    metrics.reloaded(false)
    return nil, err
  end
  plans.follow(plan, current)
  redis.adopt(plan)
  current = plan
  metrics.reloaded(true)
  metrics.keep(plan)
  keep(json)
  return true
end

-- carry has a plan follow those that were in force before nginx was reloaded, of which the
-- shared dictionary keeps up to four.
local function carry(plan, json)
  local dict, old = ngx.shared.weir, {}
  for i = 1, 4 do old[i] = dict:get("plan" .. i) end
  if old[1] == json then table.remove(old, 1) else table.insert(old, 1, json) end
  local before
  for i = #old, 1, -1 do
    local one = old[i] ~= json and plans.read(old[i])
    if one then
      if before then plans.follow(one, before) end
      before = one
    end
  end
  if before then plans.follow(plan, before) end
  if dict:get("plan1") == json then return end
  for i = 1, 4 do
    local ok = old[i] and #old[i] < dict:capacity() / 8 and dict:safe_set("plan" .. i, old[i])
    if not ok then dict:delete("plan" .. i) end
  end
end

-- init takes edge.Settings and an edge.Plan, in JSON; init_by_lua calls it. What is wrong
-- with them keeps nginx from starting.
function M.init(settings_json, plan_json)
  if not ngx.shared.weir then fail("lua_shared_dict weir: want one of 10m or more") end
  local s, err = cjson.decode(settings_json or "")
  if type(s) ~= "table" then fail("settings: " .. tostring(err or "want an object")) end
  if s.format ~= FORMAT then
    fail("settings: format " .. tostring(s.format) .. ": want " .. FORMAT .. ": made by another version of weir: write both with one, `weir edge lua` and `weir edge nginx`")
  end
  if type(s.redis) ~= "table" then fail("settings: redis: want an object") end
  s.forms, err = fields.read(s.fields)
  if not s.forms then fail("settings: " .. err) end
  local plan
  plan, err = plans.read(plan_json or "")
  if not plan then fail(tostring(err)) end
  carry(plan, plan_json)
  local ok
  ok, err = store.new(s, plan)
  if not ok then fail(tostring(err)) end
  settings, current = s, plan
end

-- start makes ready a worker; init_worker_by_lua calls it.
function M.start()
  if not settings then
    log(ERR, "weir: init was not called in init_by_lua")
    return
  end
  local err
  redis, err = store.new(settings, current)
  if not redis then
    log(ERR, "weir: ", err)
    return
  end
  queue = later.new(redis)
  ngx.timer.every(1, queue.wake)
  metrics.start(queue)
  if settings.follow then
    local dict = ngx.shared.weir
    local before = dict:get("published of") == origin() and dict:get("published")
    if before then adopt(before) end
    published, err = follow.start(redis.redis, adopt, nil, function() metrics.reloaded(false) end)
    if not published then log(ERR, err) end
  end
end

local told = 0

-- fault tells of an error in this Lua, once in a second.
local function fault(err)
  metrics.fault()
  local now = ngx.now()
  if now - told >= 1 then
    told = now
    log(ERR, "weir: ", err)
  end
end

-- name is what a request is known by while it runs.
local function name() return ngx.var.connection .. ":" .. ngx.var.connection_requests end

-- find is the pass of this request, or nil.
local function find()
  local pass = ngx.ctx.weir
  if pass or not is_internal() then return pass end
  local id = name()
  pass = passes[id] or former[id]
  ngx.ctx.weir = pass
  return pass
end

-- begin makes a pass for this request, which is known until log.
local function begin()
  local pass = gate.begin(current, redis, queue)
  pass.name = name()
  if count >= MOST then
    former, passes, count = passes, {}, 0
    fault("more than " .. MOST .. " requests have not ended: is there a log_by_lua that does not call log?")
  end
  passes[pass.name], count = pass, count + 1
  ngx.ctx.weir = pass
  return pass
end

local function enter(pass)
  if not redis then error("start was not called in init_worker_by_lua", 0) end
  gate.run(pass, request.new())
end

-- decide decides about this request, once, and returns if it may pass.
function M.decide()
  if find() then return end
  local pass = begin()
  local ok, err = pcall(enter, pass)
  if not ok then
    fault(err)
    pass.outcome, pass.enforced = "closed", 0
    if current then
      pass.outcome = "open"
      for _, p in ipairs(current.policies) do
        if p.on_store_error == "closed" then pass.outcome = "closed" end
      end
    end
    pass.passed = pass.outcome == "open"
  end
  if pass.outcome == "admitted" or pass.outcome == "open" then
    ok, err = pcall(answer.describe, settings, pass)
    if not ok then fault(err) end
    return
  end
  ok, err = pcall(answer.send, settings, pass)
  fault(err) -- it ends the request otherwise
  exit(503)
end

-- access is decide as the end of the access phase: nothing after it in the same block is
-- run. It has no opinion on who may enter, so that under "satisfy any" a request that it
-- lets through is still one that nobody has let in.
function M.access()
  M.decide()
  return exit(ngx.DECLINED)
end

-- header_filter sets the response fields again where an upstream answered, in place of its
-- own.
function M.header_filter()
  if ngx.is_subrequest then return end
  local pass = find()
  if not pass or not pass.outcome or pass.ended then return end -- it is denied, by an answer of its own
  if not (ngx.var.upstream_status or ngx.var.upstream_cache_status) then return end
  local ok, err = pcall(answer.describe, settings, pass)
  if not ok then fault(err) end
end

-- header is the last line of a response header, or of one that the upstream sent.
local function header(field)
  local value = ngx.header[field]
  if type(value) == "table" then value = value[#value] end
  return value or ngx.var["upstream_http_" .. field:lower():gsub("-", "_")]
end

local result = { status = 0, unheard = false, header = header }

local function leave(pass)
  local status = ngx.status
  result.status = status
  -- A body that broke off is answered by nginx itself, not by an upstream.
  result.unheard = status == 499 or status == 0
    or (status == 400 or status == 408) and (ngx.var.upstream_status or "") == ""
  gate.exit(pass, result)
end

-- log ends what a request holds.
function M.log()
  if ngx.is_subrequest then return end
  local pass = find()
  if not pass then return end
  if passes[pass.name] then
    passes[pass.name], count = nil, count - 1
  else
    former[pass.name] = nil
  end
  local ok, err = pcall(leave, pass)
  if not ok then fault(err) end
end

local function loopback(address)
  return address == "127.0.0.1" or address == "::1" or address == "unix:" or address:find("^127%.") ~= nil
end

-- explain answers which policies, keys and limits a request would be asked about, and asks
-- nothing. The request is described by the arguments method, host, path, ip, and header,
-- any number of "Name: value". It answers the loopback interface alone, since keys tell of
-- people.
function M.explain()
  local peer = ngx.var.realip_remote_addr or ngx.var.remote_addr
  if not loopback(peer) or not loopback(ngx.var.remote_addr) then return exit(403) end
  require("weir.explain").answer(current)
end

-- metrics answers with what all workers have counted, as Prometheus reads it.
function M.metrics()
  ngx.header["Content-Type"] = "text/plain; version=0.0.4; charset=utf-8"
  ngx.print(metrics.text(current, {
    { "weir_store_breaker_open", "1 while the store is left alone because it does not answer, else 0.", redis and redis.away() and 1 or 0 },
    { "weir_policies_last_reload_successful", "1 if the policies that were last read are in use, 0 if they were refused.",
      published and published.trouble and 0 or 1 },
  }))
end

return M
