-- What requests hold until their end: tokens of policies that count by the result, which
-- are then settled, and slots of concurrency limits, which are renewed while the request
-- runs and given back at its end. If the worker dies, all of it comes free by itself.
-- Twin of enforce/holds.go.
--
-- A holder is a pass of gate.lua, and asks by its later. Its tokens, slots and doubts are lists of holds, nil
-- while there are none; once it has ended, ended is true and result is what it is
-- settled by, false if it did not pass.

local metrics = require "weir.metrics"
local random = require "weir.random"

local max, min = math.max, math.min
local CHARGE, RESERVE, COMMIT, CANCEL = 3, 6, 7, 8
local MAX_TTL = 30 * 24 * 3600 * 1000000
local SETTLE_TTL = 600 * 1000000
local MAX_TOLD = 2 ^ 40
local LOST = 1 -- s after which a timer is one that nginx dropped: see lua_max_running_timers

local M = {}

-- by_result reports whether a policy counts by the result.
local function by_result(p) return p.count == "failures" or p.count == "successes" or p.settle ~= nil end

-- prepare turns those requests of an ask into reservations whose tokens are known only at
-- the end, and those for slots. Of a request that does not go through there is no result:
-- what would be counted by it is counted as it is.
function M.prepare(pass, ask, admitted)
  local settled = admitted and by_result(ask.policy)
  local requests = ask.requests
  for i = 1, #requests do
    local r = requests[i]
    local lease = r.rule.lease or 0
    if lease > 0 or settled then
      r.held = r.n > 0 or lease == 0
      if r.n > 0 then -- nothing cannot be reserved
        pass.id = pass.id or random.id()
        r.verb, r.id, r.ttl = RESERVE, pass.id, lease > 0 and min(lease, MAX_TTL) or SETTLE_TTL
      end
    end
  end
end

-- again is a copy of a request with another verb.
local function again(r, verb, n)
  return { key = r.key, rule = r.rule, verb = verb, n = n, from = r.from, carry = r.carry, id = r.id, ttl = r.ttl }
end

M.again = again

-- The slots of this worker that are held, whether something renews them, and when that
-- should have begun.
local slots, count, running, lost = {}, 0, false, 0
local later -- of this worker

-- renew keeps every slot for another of its lives when a third of it is over. A renewal
-- that fails is tried again when the next is due. It is one function that runs as long as
-- there are slots, also in a worker that is shutting down, where no timer can be set.
local function renew()
  while count > 0 do
    local now, due, next = ngx.now(), nil, 1
    for hold in pairs(slots) do
      local third = hold.request.ttl / 3e6
      if hold.renewed + third <= now then
        hold.renewed = now
        due = due or {}
        due[#due + 1] = again(hold.request, RESERVE, hold.request.n)
      end
      next = min(next, hold.renewed + third - now)
    end
    if due then later.run(due) end
    ngx.sleep(max(next, 0.005))
  end
end

local function watch()
  if running then return end
  running, lost = true, 0
  local ok, err = pcall(renew)
  running = false
  if not ok then ngx.log(ngx.ERR, "weir: renewing slots: ", err) end
end

-- start has the slots of this worker renewed.
local function start(l)
  later = l
  if running or ngx.now() < lost then return end
  local ok, err = ngx.timer.at(0, watch)
  if ok then
    lost = ngx.now() + LOST
  else
    ngx.log(ngx.ERR, "weir: slots are not renewed: ", err)
  end
end

-- keep notes what the store has granted to an ask.
function M.keep(pass, ask)
  local requests = ask.requests
  for i = 1, #requests do
    local r = requests[i]
    if r.held then
      local hold = { request = r, policy = ask.policy, shadow = ask.tried }
      if (r.rule.lease or 0) > 0 then
        hold.renewed = ngx.now()
        pass.slots = pass.slots or {}
        pass.slots[#pass.slots + 1] = hold
        slots[hold], count = true, count + 1
        start(pass.later)
      else
        pass.tokens = pass.tokens or {}
        pass.tokens[#pass.tokens + 1] = hold
      end
    end
  end
end

-- doubt notes what the store is asked to reserve, until it is known what it answered: it
-- may do so though nobody hears of it, and nobody else would give that back before the end
-- of its life.
function M.doubt(pass, requests)
  for i = 1, #requests do
    if requests[i].verb == RESERVE then
      pass.doubts = pass.doubts or {}
      pass.doubts[#pass.doubts + 1] = requests[i]
    end
  end
end

-- forget gives back what was not known to be granted. It is asked once.
local function forget(pass)
  local doubts = pass.doubts
  if not doubts then return end
  pass.doubts = nil
  local list = {}
  for i = 1, #doubts do list[i] = again(doubts[i], CANCEL, 0) end
  pass.later.run(list)
end

-- release gives the slots of a request back.
local function release(pass)
  local held = pass.slots
  if not held then return end
  pass.slots = nil
  local list = {}
  for i = 1, #held do
    if slots[held[i]] then slots[held[i]], count = nil, count - 1 end
    list[i] = again(held[i].request, CANCEL, 0)
  end
  pass.later.run(list)
end

-- counts reports whether a status counts against a policy.
local function counts(p, status)
  if p.count ~= "failures" and p.count ~= "successes" then return true end
  local failed = false
  for _, range in ipairs(p.failures or {}) do
    failed = failed or range[1] <= status and status <= range[2]
  end
  return failed == (p.count == "failures")
end

-- told is the number that a text says, which is digits alone and at most 2^40, or nil.
local function told(text)
  if type(text) ~= "string" then return nil end
  local digits = text:match("^[ \t]*(%d+)[ \t]*$")
  local n = digits and tonumber(digits)
  return n and n <= MAX_TOLD and n or nil
end

M.told = told

-- cost is what a token hold costs by a result.
local function cost(hold, result)
  local p = hold.policy
  if not result.unheard and not counts(p, result.status) then return 0 end
  return p.settle and told(result.header(p.settle)) or hold.request.n
end

-- settle makes every token of a request cost what its result says, or nothing if it did
-- not pass. What had gone back already is charged. It is not called where there are none:
-- LuaJIT compiles nothing that calls a function with a closure in it.
local function settle(pass, tokens)
  local result = pass.result
  pass.tokens = nil
  local list, of = {}, {}
  for i = 1, #tokens do
    local hold, r = tokens[i], tokens[i].request
    local n = result and cost(hold, result) or 0
    if r.verb == RESERVE then
      list[#list + 1] = again(r, COMMIT, n)
      of[#list] = hold
    elseif n > 0 then
      list[#list + 1] = again(r, CHARGE, n)
      of[#list] = hold
    end
  end
  if #list == 0 then return end
  pass.later.run(list, function(answers, err)
    local charges
    local last
    for i = 1, #list do
      if not answers or answers[i].err then
        if of[i].policy ~= last then metrics.unsettled(of[i].policy) end
        last = of[i].policy
      elseif answers[i].unknown and list[i].n > 0 then
        charges = charges or {}
        charges[#charges + 1] = again(list[i], CHARGE, list[i].n)
      end
    end
    if charges then pass.later.run(charges) end
  end)
end

-- finish ends what a request holds by pass.result; again and again if something is granted
-- after its end.
function M.finish(pass)
  release(pass)
  local tokens = pass.tokens
  if tokens then settle(pass, tokens) end
  forget(pass)
end

-- granted is keep for an ask that was answered later than the request may have ended.
function M.granted(pass, ask)
  M.keep(pass, ask)
  if pass.ended then M.finish(pass) end
end

-- held is how many slots this worker holds.
function M.held() return count end

return M
