-- Decides what becomes of a request: the enforced charges are decided together, and each
-- charge in shadow on its own. If the store makes no decision, on_store_error of the
-- policies decides. Twin of package enforce.
--
-- An admission is the state of one request: its plan, charges and outcome ("admitted",
-- "denied", "open", "closed" or "overloaded"), and what it has reserved.

local charges = require "weir.charges"
local fields = require "weir.fields"
local metrics = require "weir.metrics"
local reservations = require "weir.reservations"

local ceil, max = math.ceil, math.max

-- MAX_REQUESTS is the number of limits that a store decides together. Twin of bounds.MaxBatch.
local MAX_REQUESTS = 256

local M = {}

-- label returns the name of one of n limits of a policy in fields and problems.
local function label(p, i, n)
  local labels = p.labels
  if not labels then
    labels = { [0] = fields.label(p.name) }
    p.labels = labels
  end
  if n == 1 then return labels[0] end
  local text = labels[i]
  if not text then
    text = fields.label(p.name .. "/" .. i)
    labels[i] = text
  end
  return text
end

-- blocked returns the first enforced charge of a key that an operator blocked, or nil.
local function blocked(adm)
  for i = 1, adm.enforced do
    if adm.charges[i].blocked then return adm.charges[i] end
  end
end

-- gather returns the requests of all enforced charges in one list.
local function gather(adm)
  local list = adm.charges
  if adm.enforced == 1 then return list[1].requests end
  local all, n = {}, 0
  for i = 1, adm.enforced do
    local requests = list[i].requests
    for j = 1, #requests do
      n = n + 1
      all[n] = requests[j]
    end
  end
  return all
end

-- spread gives every enforced charge its answers, with the label of each.
local function spread(adm, answers)
  local list, at = adm.charges, 0
  for i = 1, adm.enforced do
    local charge = list[i]
    local n = #charge.requests
    local part = adm.enforced == 1 and answers or {}
    for j = 1, n do
      local answer = answers[at + j]
      answer.label, part[j] = label(charge.policy, j, n), answer
    end
    charge.answers, at = part, at + n
  end
end

local function all_ok(answers)
  for i = 1, #answers do
    if not answers[i].ok then return false end
  end
  return true
end

-- undecided returns the outcome of n policies without a decision of the store.
function M.undecided(policies, n)
  for i = 1, n do
    if policies[i].on_store_error == "closed" then return "closed" end
  end
  return "open"
end

-- decide asks the store about the enforced charges together.
local function decide(adm)
  adm.blocked = blocked(adm)
  if adm.blocked then
    for i = 1, adm.enforced do adm.charges[i].answers = {} end
    return "denied"
  end
  local requests, list = gather(adm), adm.charges
  if #requests > MAX_REQUESTS then
    adm.excess = "enforce: request matches " .. #requests .. " limits of enforced policies, want at most "
      .. MAX_REQUESTS .. ", which a store decides together"
    return "closed"
  end
  reservations.expect(adm, requests) -- the request can end before the answer arrives
  local answers, err, overload = adm.store.run(requests, #requests > 1)
  if not answers then
    adm.err = err or "no answer"
    metrics.failed(requests, adm.err)
    -- Otherwise a client could bypass an open policy by sending a burst.
    if overload then return "overloaded" end
    local policies = {}
    for i = 1, adm.enforced do policies[i] = list[i].policy end
    return M.undecided(policies, adm.enforced)
  end
  adm.expected = nil
  spread(adm, answers)
  if not all_ok(answers) then return "denied" end
  for i = 1, adm.enforced do reservations.keep(adm, list[i]) end
  return "admitted"
end

-- denier returns the enforced charge that denies a request for the longest time.
function M.denier(adm)
  if adm.blocked then return adm.blocked end
  local by, longest = adm.charges[1], -1
  for i = 1, adm.enforced do
    local answers = adm.charges[i].answers
    for j = 1, #answers do
      local retry = answers[j].retry < 0 and math.huge or answers[j].retry
      if not answers[j].ok and retry > longest then by, longest = adm.charges[i], retry end
    end
  end
  return by
end

-- try decides a charge in shadow, after the response or beside it.
local function try(adm, charge)
  if charge.blocked then return metrics.tried(charge, "denied") end
  reservations.prepare(adm, charge)
  local requests = charge.requests
  requests.all = #requests > 1
  adm.queue.run(requests, function(answers)
    if not answers then
      reservations.expect(adm, requests)
      metrics.tried(charge, "open")
      if adm.ended then reservations.finish(adm) end
    elseif all_ok(answers) then
      metrics.tried(charge, "admitted")
      reservations.keep(adm, charge)
      if adm.ended then reservations.finish(adm) end
    else
      metrics.tried(charge, "denied")
    end
  end)
end

-- begin returns the admission of a request that uses plan and store. queue holds the calls
-- to make after the response. Every admission must be ended by exit.
function M.begin(plan, store, queue)
  return { plan = plan, store = store, queue = queue, charges = {}, enforced = 0, outcome = nil, err = nil }
end

-- run decides about a request with attributes a. It returns after the delay of a queue.
function M.run(adm, a)
  local outcome = "admitted"
  adm.charges, adm.enforced = charges.of(adm.plan, a)
  if adm.enforced > 0 then
    for i = 1, adm.enforced do reservations.prepare(adm, adm.charges[i]) end
    outcome = decide(adm)
    metrics.decided(adm.charges, adm.enforced, outcome)
  end
  adm.outcome = outcome
  local admitted = outcome == "admitted" or outcome == "open"
  if admitted then
    for i = adm.enforced + 1, #adm.charges do try(adm, adm.charges[i]) end
  else
    adm.ended = true
    reservations.finish(adm)
  end
  if outcome == "admitted" then
    local delay = 0
    for i = 1, adm.enforced do
      for _, answer in ipairs(adm.charges[i].answers) do delay = max(delay, answer.delay) end
    end
    if delay > 0 then ngx.sleep(ceil(delay / 1000) / 1000) end
  end
  adm.passed = admitted
end

-- exit ends an admission with its result, which has the status and no_response: whether
-- the client disconnected before the response, which charges the request whatever the
-- policy counts. Later calls do nothing. An admission that was interrupted before it
-- passed returns its reservations. Tokens that were taken stay taken, so that
-- disconnecting early does not avoid the charge.
function M.exit(adm, result)
  if adm.ended then return end
  adm.ended, adm.result = true, adm.passed and result or nil
  reservations.finish(adm)
end

-- violated returns the labels of the limits that denied a request, or that of the policy whose key
-- is blocked.
function M.violated(adm)
  if adm.blocked then return { label(adm.blocked.policy, 0, 1) } end
  local items, names = M.items(adm), {}
  for i = 1, #items do
    if not items[i].ok then names[#names + 1] = items[i].label end
  end
  return names
end

-- items returns the answers about the enforced charges, for the response fields.
function M.items(adm)
  if adm.outcome ~= "admitted" and adm.outcome ~= "denied" then return {} end
  if adm.enforced == 1 then return adm.charges[1].answers end
  local items, n = {}, 0
  for i = 1, adm.enforced do
    local answers = adm.charges[i].answers
    for j = 1, #answers do
      n = n + 1
      items[n] = answers[j]
    end
  end
  return items
end

return M
