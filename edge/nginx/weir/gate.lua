-- What becomes of a request: what its policies ask is decided together, or each alone if
-- it is in shadow; what may wait is held back; what the store does not decide is open or
-- closed as the policies say. Twin of package gate, whose documentation is this one's.

local fields = require "weir.fields"
local holds = require "weir.holds"
local line = require "weir.line"
local metrics = require "weir.metrics"
local questions = require "weir.questions"

local ceil, max = math.ceil, math.max
local PEEK, CHARGE = 2, 3

local M = {}

-- latest is the plan in force, if that can change while a request waits.
M.latest = nil

-- label is what the fields and problems call one of n limits of a policy.
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

-- name gives answers the rules and labels that response fields name them by.
local function name(ask, answers)
  local requests = ask.requests
  local n = #requests
  for i = 1, n do
    local one = answers[i]
    one.rule, one.label = requests[i].rule, label(ask.policy, i, n)
  end
  ask.answers = answers
end

-- gather is the requests of the enforced asks of a pass, in one list.
local function gather(pass)
  local asks = pass.asks
  if pass.enforced == 1 then return asks[1].requests end
  local all, n = {}, 0
  for i = 1, pass.enforced do
    local requests = asks[i].requests
    for j = 1, #requests do
      n = n + 1
      all[n] = requests[j]
    end
  end
  return all
end

-- spread gives every enforced ask its part of the answers.
local function spread(pass, answers)
  local asks, at = pass.asks, 0
  if pass.enforced == 1 then return name(asks[1], answers) end
  for i = 1, pass.enforced do
    local part = {}
    for j = 1, #asks[i].requests do
      at = at + 1
      part[j] = answers[at]
    end
    name(asks[i], part)
  end
end

-- fits reports whether every answer is OK.
local function fits(answers)
  for i = 1, #answers do
    if not answers[i].ok then return false end
  end
  return true
end

-- undecided is what becomes of asks that the store did not decide.
local function undecided(asks, first, last)
  for i = first, last do
    if asks[i].policy.on_store_error == "closed" then return "closed" end
  end
  return "open"
end

M.undecided = undecided

-- decide asks the store about the enforced asks together.
local function decide(pass)
  local requests, asks = gather(pass), pass.asks
  local before = pass.doubts
  holds.doubt(pass, requests) -- until the answer is there: a request can end before it
  local answers, err, crowd = pass.store.run(requests, #requests > 1)
  if not answers then
    pass.err = err or "no answer"
    metrics.failed(requests, pass.err)
    for i = 1, pass.enforced do asks[i].answers = nil end
    -- Whoever sends more at once than can be asked about would be let through by it.
    if crowd then return "closed" end
    return undecided(asks, 1, pass.enforced)
  end
  pass.doubts = before
  spread(pass, answers)
  if not fits(answers) then return "denied" end
  for i = 1, pass.enforced do holds.keep(pass, asks[i]) end
  return "admitted"
end

-- denier is the enforced ask that holds a denied request back longest, and for how long in
-- µs.
local function denier(pass)
  local by, longest = pass.asks[1], -1
  for i = 1, pass.enforced do
    local answers = pass.asks[i].answers
    for j = 1, #answers do
      local retry = answers[j].retry < 0 and math.huge or answers[j].retry
      if not answers[j].ok and retry > longest then by, longest = pass.asks[i], retry end
    end
  end
  return by, longest
end

M.denier = denier

-- pass_over is the decision of a request that does not get its turn: by denies it, whatever
-- is left, since that is for those before it.
local function pass_over(pass, by)
  for i = 1, pass.enforced do
    for _, r in ipairs(pass.asks[i].requests) do r.verb, r.id, r.held = PEEK, nil, nil end
  end
  local outcome = decide(pass)
  if outcome ~= "admitted" then return outcome end
  for _, answer in ipairs(by.answers) do answer.ok = false end
  return "denied"
end

-- awaited is the first enforced ask for whose key somebody waits, or nil.
local function awaited(pass)
  for i = 1, pass.enforced do
    if line.awaited(pass.asks[i].key) then return pass.asks[i] end
  end
  return nil
end

-- in_turn is decide for requests that their policies may hold back. Of those that wait for
-- one key in this worker the first asks the store, and the others queue behind it. If
-- another plan is in force when its turn comes, the outcome is nil.
local function in_turn(pass)
  local by = awaited(pass)
  if by then
    pass.turn = line.enter(by.key)
    if not pass.turn then return pass_over(pass, by) end
  end
  while true do
    if pass.turn then
      local left = (by.policy.on_denied.wait or 0) / 1e6 - (ngx.now() - pass.since)
      if not line.await(pass.turn, left) then return pass_over(pass, by) end
    end
    if M.latest and M.latest() ~= pass.plan then return nil end
    local outcome = decide(pass)
    if outcome ~= "denied" then return outcome end
    local retry
    by, retry = denier(pass)
    local left = (by.policy.on_denied.wait or 0) - (ngx.now() - pass.since) * 1e6
    if left <= 0 or retry > left or retry <= 0 then return outcome end -- 0 does not say when
    if not pass.turn or pass.turn.key ~= by.key then
      line.leave(pass.turn)
      pass.turn = line.enter(by.key)
      if not pass.turn then return outcome end
    end
    ngx.sleep(ceil(retry / 1000) / 1000)
  end
end

-- count_denied charges a denied request to those of its asks that count all, and finds out
-- when it can be admitted after that. Both are one call.
local function count_denied(pass)
  local list, asks, n = {}, {}, 0
  for i = 1, pass.enforced do
    local ask = pass.asks[i]
    if ask.policy.count == "all" then
      for j, r in ipairs(ask.requests) do
        n = n + 1
        list[n], asks[n] = holds.again(r, CHARGE, r.n), { ask, j }
      end
    end
  end
  if n == 0 then return end
  for i = 1, n do list[n + i] = holds.again(list[i], PEEK, list[i].n) end
  local answers, err = pass.store.run(list, false)
  if not answers then
    metrics.failed(list, err or "no answer")
    for i = 1, n do
      if asks[i][2] == 1 then metrics.unsettled(asks[i][1].policy) end
    end
    return -- the answer tells the time from before the charge
  end
  for i = 1, n do
    local now, was = answers[n + i], asks[i][1].answers[asks[i][2]]
    if not now.ok and not now.err then
      now.rule, now.label = was.rule, was.label
      asks[i][1].answers[asks[i][2]] = now
    end
  end
end

-- enforce decides about the enforced policies.
local function enforce(pass)
  for i = 1, pass.enforced do holds.prepare(pass, pass.asks[i], true) end
  local outcome
  if pass.plan.waits then
    outcome = in_turn(pass)
    line.leave(pass.turn)
    pass.turn = nil
  else
    outcome = decide(pass)
  end
  if not outcome then return nil end
  metrics.decided(pass.asks, pass.enforced, outcome)
  if outcome == "denied" and pass.plan.counts then count_denied(pass) end
  return outcome
end

-- try asks about an ask in shadow, after the response or beside it: it decides nothing for
-- the client.
local function try(pass, ask, admitted)
  holds.prepare(pass, ask, admitted)
  ask.tried = true
  local requests = ask.requests
  requests.all = #requests > 1
  pass.later.run(requests, function(answers)
    if not answers then
      holds.doubt(pass, requests)
      metrics.tried(ask, "open")
      if pass.ended then holds.finish(pass) end
      return
    end
    if fits(answers) then
      metrics.tried(ask, "admitted")
      return holds.granted(pass, ask)
    end
    metrics.tried(ask, "denied")
    if ask.policy.count == "all" then
      local charges = {}
      for i, r in ipairs(requests) do charges[i] = holds.again(r, CHARGE, r.n) end
      pass.later.run(charges, function(done)
        if not done then metrics.unsettled(ask.policy) end
      end)
    end
  end)
end

-- flags says of a plan whether a policy holds denied requests back, and whether one counts
-- what is denied.
local function flags(plan)
  plan.waits, plan.counts = false, false
  for _, p in ipairs(plan.policies) do
    plan.waits = plan.waits or (p.on_denied.wait or 0) > 0
    plan.counts = plan.counts or p.count == "all"
  end
end

-- begin makes a pass: run goes on with it. Whoever ends the request in between exits it
-- all the same. later is the queue of what is asked after the response.
function M.begin(plan, store, later)
  return { plan = plan, store = store, later = later, asks = nil, enforced = 0, outcome = nil, err = nil, delay = 0 }
end

-- run decides about a request with attributes a. A queue's delay has passed when it returns.
function M.run(pass, a)
  local plan = pass.plan
  if plan.waits == nil then flags(plan) end
  local outcome
  repeat
    local asks, enforced = questions.ask(plan, a)
    pass.asks, pass.enforced, outcome = asks, enforced, "admitted"
    if enforced > 0 then
      if plan.waits and not pass.since then pass.since = ngx.now() end
      outcome = enforce(pass)
      if not outcome then -- another plan has its say, and it has waited already
        plan = M.latest()
        pass.plan = plan
        if plan.waits == nil then flags(plan) end
      end
    end
  until outcome
  pass.outcome = outcome
  local admitted = outcome == "admitted" or outcome == "open"
  for i = pass.enforced + 1, #pass.asks do
    if admitted or pass.asks[i].always then try(pass, pass.asks[i], admitted) end
  end
  if not admitted then
    pass.ended, pass.result = true, false
    holds.finish(pass)
  elseif outcome == "admitted" then
    for i = 1, pass.enforced do
      for _, answer in ipairs(pass.asks[i].answers) do pass.delay = max(pass.delay, answer.delay or 0) end
    end
    if pass.delay > 0 then ngx.sleep(ceil(pass.delay / 1000) / 1000) end
  end
  pass.passed = admitted
  return pass
end

-- lasting is a result as far as what is in shadow needs it, which may be answered when the
-- request is no more.
local function lasting(pass, result)
  local told = {}
  for i = pass.enforced + 1, #pass.asks do
    local field = pass.asks[i].policy.settle
    if field then told[field] = result.header(field) end
  end
  return { status = result.status, unheard = result.unheard, header = function(field) return told[field] end }
end

-- exit ends a pass by what became of it: result has status, unheard (a caller that went
-- away before the end is charged whatever is counted) and the function header(name).
-- Exiting again does nothing. A pass that was cut off before it passed gives back what it
-- reserved; what was taken stays taken, or who asks and leaves would ask for nothing.
function M.exit(pass, result)
  line.leave(pass.turn)
  pass.turn = nil
  if pass.ended then return end
  if pass.passed and pass.asks and pass.enforced < #pass.asks then result = lasting(pass, result) end
  pass.ended, pass.result = true, pass.passed and result or false
  holds.finish(pass)
end

-- items is what the fields tell of a pass: the answers about its enforced policies.
function M.items(pass)
  if pass.outcome ~= "admitted" and pass.outcome ~= "denied" or pass.enforced == 0 then return {} end
  if pass.enforced == 1 then return pass.asks[1].answers end
  local items, n = {}, 0
  for i = 1, pass.enforced do
    local answers = pass.asks[i].answers
    for j = 1, #answers do
      n = n + 1
      items[n] = answers[j]
    end
  end
  return items
end

return M
