-- The Takes of a worker share calls of Redis: those that arrive while others are decided are the
-- next batch. A call that is alone runs in its request, others in timers.

local clock = require "weir.clock"
local semaphore = require "ngx.semaphore"
local takes = require "weir.takes"

local timer, log, ERR = ngx.timer.at, ngx.log, ngx.ERR
local now, decides = clock.now, takes.decides
local max, pcall, remove = math.max, pcall, table.remove

local M = {}

local IN_FLIGHT = 2 -- calls at a time, as in Go, if Redis is fast
local SLOW = 0.002 -- s after which a batch does not wait for them
local MAX_SLOW = 62 -- further calls at a time
local WAITING = 1024 -- requests of a worker that may wait for a call
local IDLE = 0.1 -- s until a timer without work ends
local ROUNDS = 256 -- calls of a timer, which keeps its memory until it ends
local LOST = 1000 -- ms after which a timer must have been dropped by nginx: see lua_max_running_timers
local GRACE = 0.001 -- s for a reply that arrived while the worker was busy

-- new returns a function run(requests, deadline), which decides requests all or none for a store
-- with a prefix. It returns nil if only the general path can do that; otherwise an op with answers,
-- or with problem and what that says about Redis. call(batch, deadline) runs a batch and returns
-- nothing, or both. late(deadline, sent) returns what a timeout says; full says that too many wait.
function M.new(store, call, late, full)
  local batches, waiting = {}, 0 -- those not sent, and their ops
  local work -- wakes an idle timer
  local running, idle, lost, alone = 0, 0, 0, 0
  local slow, slow_lost = 0, 0

  local function decide(b, deadline)
    local ok, problem, says = pcall(call, b, deadline)
    if not ok then log(ERR, "weir: ", problem) end
    for i = 1, problem and #b.ops or 0 do b.ops[i].problem, b.ops[i].says = problem, says end
  end

  -- first decides the first batch. It returns false if there is none.
  local function first()
    local b = remove(batches, 1)
    if not b then return false end
    waiting = waiting - #b.ops
    if b.gone then b:drop() end
    b.sent = now()
    if b.ops[1] then decide(b, b.deadline) end
    b.decided = true
    b.done:post(max(1, #b.ops))
    return true
  end

  local start, wake

  -- serve decides batches. When it has decided many, another timer takes its place, and gets the
  -- wake-up for a batch that this one leaves.
  local function serve()
    running, lost = running + 1, 0
    work = work or semaphore.new()
    local rounds = 0
    while rounds < ROUNDS or running <= IN_FLIGHT do
      if first() then
        rounds = rounds + 1
        if rounds >= ROUNDS then start() end
      else
        idle = idle + 1
        local woken = work:wait(IDLE)
        idle = idle - 1
        if not woken and not batches[1] then break end
      end
    end
    running = running - 1
    if batches[1] then wake() end
  end

  function start()
    if now() < lost then return end
    local ok, err = timer(0, serve)
    if ok then lost = now() + LOST else log(ERR, "weir: no timer for calls: ", err) end
  end

  -- serve_slow decides the batches that wait because the calls in flight take long.
  local function serve_slow()
    slow, slow_lost = slow + 1, 0
    for _ = 1, ROUNDS do
      if not first() then break end
    end
    slow = slow - 1
  end

  -- wake has the batches decided.
  function wake()
    if idle > 0 then return work:post(1) end
    if running < IN_FLIGHT then return start() end
    if slow < MAX_SLOW and now() >= slow_lost and timer(SLOW, serve_slow) then slow_lost = now() + LOST end
  end

  -- join adds requests to the batch that is sent next. It returns their op and the batch, or nil.
  local function join(requests)
    local b = batches[#batches]
    local op = b and b:add(requests)
    if not b or op == false then
      b = takes.new(store.prefix)
      op, b.done = b:add(requests), semaphore.new()
      if not op then return nil end
      batches[#batches + 1] = b
      wake()
    end
    if op then waiting = waiting + 1 end
    return op, b
  end

  local function wait(requests, deadline)
    if waiting >= WAITING then return { problem = "too many waiting", says = full } end
    local op, b = join(requests)
    if not op then return nil end
    b.deadline = deadline
    b.done:wait(max(deadline - now(), 1) / 1000)
    if not b.decided then b.done:wait(GRACE) end
    if not b.decided then
      op.gone, b.gone = true, true
      op.problem, op.says = "timeout", late(deadline, b.sent)
    end
    return op
  end

  return function(requests, deadline)
    if not decides(requests) then return nil end
    local op
    if running > 0 then
      op = wait(requests, deadline)
    else
      local b = takes.new(store.prefix)
      op = b:add(requests)
      if not op then return nil end
      if alone > 0 then start() end
      alone = alone + 1
      decide(b, deadline)
      alone = max(0, alone - 1)
    end
    return op and not op.general and op or nil
  end
end

return M
