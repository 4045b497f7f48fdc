-- Calls of the store after the response: a bounded queue for each worker, and one timer at a
-- time that sends it, many requests in one call. A worker that shuts down empties its queue.

local timer, log, ERR, now = ngx.timer.at, ngx.log, ngx.ERR, ngx.now
local pcall = pcall

local M = {}

local MAX_ENTRIES = 4096
local BATCH = 128 -- requests of a call, as of a round trip in Go
local LOST = 1 -- s after which a timer must have been dropped by nginx: see lua_max_running_timers
local ROUNDS = 256 -- calls of a timer, which keeps its memory until it ends

local function notify(done, answers, err)
  if not done then return end
  local ok, problem = pcall(done, answers, err)
  if not ok then log(ERR, "weir: ", problem) end
end

-- new returns a queue for a store. It has
--
--   run(requests, done)  sends requests, all or none if requests.all and else each on its
--                        own, in the order of the calls of run; then calls done(answers)
--                        or done(nil, err), if done is given. If the queue is full, it
--                        calls done(nil, err) at once
--   wake()               starts the timer again, if nginx dropped it
--   waiting()            returns how many entries wait
--   dropped              counts the entries that found the queue full
function M.new(store)
  local q = { dropped = 0 }
  local entries, callbacks = {}, {} -- by number
  local first, last, running, lost = 1, 0, false, 0

  local function take()
    local requests, done = entries[first], callbacks[first]
    entries[first], callbacks[first] = nil, nil
    first = first + 1
    return requests, done
  end

  local function ask(requests, all)
    local ok, answers, err = pcall(store.run, requests, all)
    if ok then return answers, err end
    log(ERR, "weir: ", answers)
    return nil, answers
  end

  -- several sends n independent entries in one call.
  local function several(list, dones, n)
    local together, at = {}, 0
    for i = 1, n do
      local requests = list[i]
      for k = 1, #requests do
        at = at + 1
        together[at] = requests[k]
      end
    end
    local answers, err = ask(together, false)
    at = 0
    for i = 1, n do
      local part, problem, count = nil, err, #list[i]
      if answers then
        part = {}
        for k = 1, count do part[k] = answers[at + k] end
        if count == 1 and part[1].err then part, problem = nil, part[1].err end
      end
      at = at + count
      notify(dones[i], part, problem)
    end
  end

  local function round()
    if entries[first].all then
      local requests, done = take()
      return notify(done, ask(requests, true))
    end
    local list, dones, n, count = {}, {}, 0, 0
    while first <= last and not entries[first].all do
      count = count + #entries[first]
      if count > BATCH and n > 0 then break end
      n = n + 1
      list[n], dones[n] = take()
    end
    return several(list, dones, n)
  end

  local drain
  local function start()
    local started, err = timer(0, drain)
    if started then lost = now() + LOST else log(ERR, "weir: no timer for calls after the response: ", err) end
  end

  function drain()
    if running then return end
    running, lost = true, 0
    local rounds = 0
    while first <= last and rounds < ROUNDS do
      round()
      rounds = rounds + 1
    end
    running = false
    if first <= last then start() end
  end

  function q.waiting() return last - first + 1 end

  function q.wake()
    if first <= last and not running and now() >= lost then start() end
  end

  function q.run(requests, done)
    if q.waiting() >= MAX_ENTRIES then
      q.dropped = q.dropped + 1
      return notify(done, nil, "weir: the queue of calls after the response is full: " .. MAX_ENTRIES)
    end
    last = last + 1
    entries[last], callbacks[last] = requests, done or false
    q.wake()
  end

  return q
end

return M
