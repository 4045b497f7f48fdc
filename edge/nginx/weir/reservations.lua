-- What a request holds until it ends. Tokens of policies that count by the status are
-- reserved and settled then. Slots of concurrency limits are renewed while the request runs
-- and released then. If the worker dies, both expire. Twin of enforce/settle.go.
--
-- An admission of enforce.lua has three lists: slots and tokens (granted reservations) and
-- expected (requests whose answer is unknown). When it has ended, ended is true, and result
-- is what it is settled by: nil if the request did not pass.

local crypto = require "weir.crypto"
local metrics = require "weir.metrics"

local max, min = math.max, math.min
local CHARGE, RESERVE, COMMIT, CANCEL = 3, 6, 7, 8
local MAX_TTL = 30 * 24 * 3600 * 1000000
local SETTLE_TTL = 600 * 1000000
local LOST = 1 -- s after which a timer must have been dropped by nginx: see lua_max_running_timers

local M = {}

-- prepare turns requests of a charge into reservations: those for slots, and those whose
-- tokens depend on the status. A reservation of 0 tokens is invalid.
function M.prepare(adm, charge)
  local requests = charge.requests
  local by_status = charge.policy.count ~= "admitted"
  for i = 1, #requests do
    local r = requests[i]
    local lease = r.rule.lease
    if r.n > 0 and (lease or by_status) then
      adm.id = adm.id or crypto.id()
      r.verb, r.id, r.ttl = RESERVE, adm.id, lease and min(lease, MAX_TTL) or SETTLE_TTL
    end
  end
end

-- again returns a copy of a request with another verb.
local function again(r, verb, n)
  return { key = r.key, rule = r.rule, verb = verb, n = n, id = r.id, ttl = r.ttl }
end

-- The slots that this worker holds, whether renew runs, and until when it may start.
local slots, count, running, lost = {}, 0, false, 0
local queue -- of this worker

-- renew extends every slot when a third of its lease has passed. A failed renewal is
-- repeated when the next is due. It runs as long as there are slots, also in a worker that
-- shuts down, where no timer can be created.
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
    if due then queue.run(due) end
    ngx.sleep(max(next, 0.005))
  end
end

local function watch()
  if running then return end
  running, lost = true, 0
  local ok, err = pcall(renew)
  running = false
  if not ok then ngx.log(ngx.ERR, "weir: cannot renew slots: ", err) end
end

-- start starts renew, if it does not run.
local function start(q)
  queue = q
  if running or ngx.now() < lost then return end
  local ok, err = ngx.timer.at(0, watch)
  if ok then
    lost = ngx.now() + LOST
  else
    ngx.log(ngx.ERR, "weir: cannot renew slots: ", err)
  end
end

-- keep records what the store has granted to a charge.
function M.keep(adm, charge)
  local requests = charge.requests
  for i = 1, #requests do
    local r = requests[i]
    if r.verb == RESERVE then
      local hold = { request = r, policy = charge.policy }
      if r.rule.lease then
        hold.renewed = ngx.now()
        adm.slots = adm.slots or {}
        adm.slots[#adm.slots + 1] = hold
        slots[hold], count = true, count + 1
        start(adm.queue)
      else
        adm.tokens = adm.tokens or {}
        adm.tokens[#adm.tokens + 1] = hold
      end
    end
  end
end

-- expect records reservations whose answer is not known. The store may have granted them
-- although the answer was lost.
function M.expect(adm, requests)
  for i = 1, #requests do
    if requests[i].verb == RESERVE then
      adm.expected = adm.expected or {}
      adm.expected[#adm.expected + 1] = requests[i]
    end
  end
end

-- cancel returns reservations.
local function cancel(adm, requests)
  local list = {}
  for i = 1, #requests do list[i] = again(requests[i], CANCEL, 0) end
  adm.queue.run(list)
end

-- release returns the slots of a request.
local function release(adm, held)
  local requests = {}
  for i = 1, #held do
    if slots[held[i]] then slots[held[i]], count = nil, count - 1 end
    requests[i] = held[i].request
  end
  cancel(adm, requests)
end

-- counts reports whether a result counts against a policy.
local function counts(p, result)
  if not result then return false end
  if result.no_response then return true end
  local failed = false
  for _, range in ipairs(p.failures or {}) do
    failed = failed or range[1] <= result.status and result.status <= range[2]
  end
  return failed == (p.count == "failures")
end

-- settle commits or returns the tokens of a request by its result. A reservation that has
-- expired is charged.
local function settle(adm, tokens)
  local list = {}
  for i = 1, #tokens do
    local r = tokens[i].request
    list[i] = again(r, COMMIT, counts(tokens[i].policy, adm.result) and r.n or 0)
  end
  adm.queue.run(list, function(answers)
    local expired, last
    for i = 1, #list do
      if not answers or answers[i].err then
        if tokens[i].policy ~= last then metrics.unsettled(tokens[i].policy) end
        last = tokens[i].policy
      elseif answers[i].unknown and list[i].n > 0 then
        expired = expired or {}
        expired[#expired + 1] = again(list[i], CHARGE, list[i].n)
      end
    end
    if expired then adm.queue.run(expired) end
  end)
end

-- finish ends what a request holds, by its result. It is called again for what the store
-- grants after that.
function M.finish(adm)
  local held, tokens, expected = adm.slots, adm.tokens, adm.expected
  adm.slots, adm.tokens, adm.expected = nil, nil, nil
  if held then release(adm, held) end
  if tokens then settle(adm, tokens) end
  if expected then cancel(adm, expected) end
end

return M
