-- Counters for Prometheus. A worker counts locally and adds its counts to the shared
-- dictionary weir every second. The names are those of the metrics of weir serve.
--
-- The number of series is bounded: the policies of the plan have their own, up to MAX_SERIES,
-- and all others share "other".

local M = {}

local MAX_SERIES = 1000
local MAX_LABEL = 128 -- bytes

local OUTCOMES = { "admitted", "denied", "held", "failed_open", "failed_closed", "overloaded" }
local FAILED = { open = "failed_open", closed = "failed_closed", overloaded = "overloaded" }
local OPS = { [0] = "take", [3] = "charge", [6] = "reserve", [7] = "commit", [8] = "cancel" }
local REASONS = { "timeout", "closed", "unavailable", "other" }

-- The counts since the last flush. Each policy has a table of its own, so that counting
-- builds no strings.
local plain, series, known = {}, {}, 0

local function new_series(name)
  return { name = name, enforced = {}, shadow = {}, expressions = 0, unsettled = 0, overflow = 0 }
end

local other = new_series("other")

local function of(p)
  local name = p.name
  local s = series[name]
  if s then return s end
  if known >= MAX_SERIES then
    other.overflow = other.overflow + 1
    return other
  end
  s = new_series(name)
  series[name], known = s, known + 1
  return s
end

local function add(t, name) t[name] = (t[name] or 0) + 1 end

-- decided counts the outcome of the first n charges, which were decided together.
function M.decided(charges, n, outcome)
  for i = 1, n do
    local charge = charges[i]
    local s, what = of(charge.policy), FAILED[outcome]
    if not what then
      what = "admitted"
      if charge.blocked then what = "denied" end
      local answers = charge.answers
      for j = 1, #answers do
        if not answers[j].ok then what = "denied" end
      end
      if what == "admitted" and outcome == "denied" then what = "held" end
    end
    add(s.enforced, what)
    if charge.fault then s.expressions = s.expressions + 1 end
  end
end

-- tried counts the outcome of a charge in shadow.
function M.tried(charge, outcome)
  local s = of(charge.policy)
  add(s.shadow, FAILED[outcome] or outcome)
  if charge.fault then s.expressions = s.expressions + 1 end
end

-- unsettled counts a request whose reservation could not be settled.
function M.unsettled(p)
  local s = of(p)
  s.unsettled = s.unsettled + 1
end

local function reason(err)
  err = tostring(err)
  if err:find("timeout", 1, true) then return "timeout" end
  for _, text in ipairs { "refused", "circuit breaker open", "reset", "no route", "LOADING", "MASTERDOWN" } do
    if err:find(text, 1, true) then return "unavailable" end
  end
  return err:find("closed", 1, true) and "closed" or "other"
end

-- failed counts requests that the store did not decide.
function M.failed(requests, err)
  local op = #requests == 1 and OPS[requests[1].verb] or "batch"
  add(plain, "errors|" .. op .. "|" .. reason(err))
end

-- fault counts errors of this Lua.
function M.fault() add(plain, "faults") end

-- reloaded counts plans that were adopted or refused.
function M.reloaded(ok) add(plain, ok and "reloads|success" or "reloads|failure") end

local function flush_policy(dict, s)
  for kind, counts in pairs({ enforced = s.enforced, shadow = s.shadow }) do
    for what, n in pairs(counts) do
      dict:incr("m|" .. kind .. "|" .. s.name .. "|" .. what, n, 0)
      counts[what] = nil
    end
  end
  for _, kind in ipairs({ "expressions", "unsettled" }) do
    if s[kind] > 0 then
      dict:incr("m|" .. kind .. "|" .. s.name, s[kind], 0)
      s[kind] = 0
    end
  end
end

local queue, reported = nil, 0 -- the queue of this worker, and its dropped entries so far

local function flush()
  local dict = ngx.shared.weir
  if queue and queue.dropped > reported then
    plain.dropped, reported = queue.dropped - reported, queue.dropped
  end
  for name, n in pairs(plain) do
    dict:incr("m|" .. name, n, 0)
    plain[name] = nil
  end
  if other.overflow > 0 then
    dict:incr("m|overflow", other.overflow, 0)
    other.overflow = 0
  end
  for _, s in pairs(series) do flush_policy(dict, s) end
  flush_policy(dict, other)
end

-- keep deletes the series of policies that a plan does not have.
function M.keep(plan)
  flush()
  local kept, dict = {}, ngx.shared.weir
  for _, p in ipairs(plan.policies) do kept[p.name] = true end
  for name in pairs(series) do
    if not kept[name] then
      series[name], known = nil, known - 1
      for _, what in ipairs(OUTCOMES) do
        dict:delete("m|enforced|" .. name .. "|" .. what)
        dict:delete("m|shadow|" .. name .. "|" .. what)
      end
      dict:delete("m|expressions|" .. name)
      dict:delete("m|unsettled|" .. name)
    end
  end
end

-- totals returns the decisions of each policy of a plan by all workers, at most MAX_REPORTED
-- policies: the columns of guard/instances.
local MAX_REPORTED = 256
function M.totals(plan)
  flush()
  local dict, all, n = ngx.shared.weir, {}, 0
  for _, p in ipairs(plan.policies) do
    if n < MAX_REPORTED and not p.name:find("~candidate", 1, true) then
      local function of(kind, what) return dict:get("m|" .. kind .. "|" .. p.name .. "|" .. what) or 0 end
      local function both(what) return of("enforced", what) + of("shadow", what) end
      n = n + 1
      all[p.name] = {
        admitted = both("admitted") + both("failed_open"), denied = of("enforced", "denied"), shadow = of("shadow", "denied"),
        overloaded = both("overloaded") + both("failed_closed"),
      }
    end
  end
  return all
end

-- start flushes the counts of this worker every second, and when it shuts down.
function M.start(q)
  queue = q
  return ngx.timer.every(1, function()
    local ok, err = pcall(flush)
    if not ok then ngx.log(ngx.ERR, "weir: metrics: ", err) end
  end)
end

local function escape(text)
  text = text:sub(1, MAX_LABEL)
  if text:find("[\128-\255]") and not ngx.re.find(text, ".", "jou") then text = text:gsub("[\128-\255]", "?") end
  return (text:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }))
end

local function head(out, name, kind, help)
  out[#out + 1] = "# HELP " .. name .. " " .. help .. "\n# TYPE " .. name .. " " .. kind .. "\n"
end

local function line(out, name, labels, value)
  out[#out + 1] = name .. (labels ~= "" and "{" .. labels .. "}" or "") .. " " .. string.format("%.17g", value) .. "\n"
end

-- by_policy writes a counter with one series for each policy.
local function by_policy(out, dict, names, family, kind, help)
  head(out, family, "counter", help)
  for _, name in ipairs(names) do
    local n = dict:get("m|" .. kind .. "|" .. name)
    if n then line(out, family, 'policy="' .. escape(name) .. '"', n) end
  end
end

local function by_outcome(out, dict, names, family, kind, help)
  head(out, family, "counter", help)
  for _, name in ipairs(names) do
    for _, what in ipairs(OUTCOMES) do
      local n = dict:get("m|" .. kind .. "|" .. name .. "|" .. what)
      if n then line(out, family, 'interface="nginx",policy="' .. escape(name) .. '",outcome="' .. what .. '"', n) end
    end
  end
end

local function degraded(out, dict, names)
  local family = "weir_degraded_decisions_total"
  head(out, family, "counter", "Decisions made while the store was unavailable, by mode.")
  for _, name in ipairs(names) do
    for _, mode in ipairs({ "open", "closed" }) do
      local what = "|" .. name .. "|" .. FAILED[mode]
      local n = (dict:get("m|enforced" .. what) or 0) + (dict:get("m|shadow" .. what) or 0)
      if n > 0 then line(out, family, 'policy="' .. escape(name) .. '",mode="' .. mode .. '"', n) end
    end
  end
end

local function store_errors(out, dict)
  head(out, "weir_store_errors_total", "counter", "Calls that the store did not decide, by operation and reason.")
  for _, op in ipairs({ "batch", "take", "charge", "reserve", "commit", "cancel" }) do
    for _, why in ipairs(REASONS) do
      local n = dict:get("m|errors|" .. op .. "|" .. why)
      if n then line(out, "weir_store_errors_total", 'op="' .. op .. '",reason="' .. why .. '"', n) end
    end
  end
end

-- text returns all counts in the text format of Prometheus, with gauges of this worker: a
-- list of { name, help, value }.
function M.text(plan, gauges)
  flush()
  local dict, out, names = ngx.shared.weir, {}, {}
  for _, p in ipairs(plan.policies) do names[#names + 1] = p.name end
  names[#names + 1] = "other"
  by_outcome(out, dict, names, "weir_decisions_total", "enforced", "Decisions of enforced policies, by outcome.")
  by_outcome(out, dict, names, "weir_shadow_decisions_total", "shadow", "Decisions of policies in shadow, by outcome.")
  degraded(out, dict, names)
  by_policy(out, dict, names, "weir_expression_errors_total", "expressions", "Requests for which an expression could not be evaluated.")
  by_policy(out, dict, names, "weir_unsettled_total", "unsettled", "Requests whose reservation could not be settled after the response.")
  store_errors(out, dict)
  head(out, "weir_policies_reload_total", "counter", "Reloads of the policies by all workers, by result.")
  for _, result in ipairs({ "success", "failure" }) do
    line(out, "weir_policies_reload_total", 'result="' .. result .. '"', dict:get("m|reloads|" .. result) or 0)
  end
  head(out, "weir_policies_version", "gauge", "Always 1; the label is the version of the policies in use.")
  line(out, "weir_policies_version", 'version="' .. string.format("%.17g", plan.version or 0) .. '"', 1)
  for _, c in ipairs({
    { "weir_series_overflow_total", "overflow", 'kind="policy"', 'Events counted under "other" because there are too many policies.' },
    { "weir_edge_later_dropped_total", "dropped", "", "Store calls after a response that found the queue full." },
    { "weir_edge_faults_total", "faults", "", "Requests decided without the store because of an error in the Lua." },
  }) do
    head(out, c[1], "counter", c[4])
    line(out, c[1], c[3], dict:get("m|" .. c[2]) or 0)
  end
  for _, g in ipairs(gauges or {}) do
    head(out, g[1], "gauge", g[2])
    line(out, g[1], "", g[3])
  end
  return table.concat(out)
end

return M
