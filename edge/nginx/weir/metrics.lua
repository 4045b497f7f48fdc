-- Counts what becomes of requests, as Prometheus reads it. A worker counts for itself and
-- adds that up in the shared dictionary weir every second. The names are those of Weir's
-- other programs where they mean the same.
--
-- The number of series is bounded: the policies of the plan in force have them, up to MOST,
-- and all others together are "other".

local M = {}

local MOST = 1000
local LONGEST = 128 -- bytes of a label

local OUTCOMES = { "admitted", "denied", "held", "failed_open", "failed_closed" }
local NAMES = { open = "failed_open", closed = "failed_closed" }
local OPS = { [0] = "take", "take_up_to", "peek", "charge", "return", "reset", "reserve", "commit", "cancel" }
local REASONS = { "timeout", "closed", "unavailable", "other" }

-- Counts of this worker since they were last added up, by their name in the dictionary.
-- Each policy has a table of its own, so that counting makes no text.
local plain, series, known = {}, {}, 0

local function fresh(name)
  return { name = name, enforced = {}, shadow = {}, expressions = 0, unsettled = 0, overflow = 0 }
end

local rest = fresh("other")

-- of is the counts of a policy.
local function of(p)
  local name = p.name
  local s = series[name]
  if s then return s end
  if known >= MOST then
    rest.overflow = rest.overflow + 1
    return rest
  end
  s = fresh(name)
  series[name], known = s, known + 1
  return s
end

local function add(t, name) t[name] = (t[name] or 0) + 1 end

-- decided counts what became of the first n asks, which were decided together.
function M.decided(asks, n, outcome)
  for i = 1, n do
    local ask = asks[i]
    local s, what = of(ask.policy), NAMES[outcome]
    if not what then
      what = "admitted"
      local answers = ask.answers
      for j = 1, #answers do
        if not answers[j].ok then what = "denied" end
      end
      if what == "admitted" and outcome == "denied" then what = "held" end
    end
    add(s.enforced, what)
    if ask.fault then s.expressions = s.expressions + 1 end
  end
end

-- tried counts what would have become of a request under an ask in shadow.
function M.tried(ask, outcome)
  local s = of(ask.policy)
  add(s.shadow, NAMES[outcome] or outcome)
  if ask.fault then s.expressions = s.expressions + 1 end
end

-- unsettled counts a request whose cost could not be charged or given back.
function M.unsettled(p)
  local s = of(p)
  s.unsettled = s.unsettled + 1
end

-- reason is why the store did not decide, in one of a few words.
local function reason(err)
  err = tostring(err)
  if err:find("timeout", 1, true) then return "timeout" end
  if err:find("refused", 1, true) or err:find("left alone", 1, true) or err:find("reset", 1, true)
    or err:find("no route", 1, true) or err:find("LOADING", 1, true) or err:find("MASTERDOWN", 1, true) then
    return "unavailable"
  end
  if err:find("closed", 1, true) then return "closed" end
  return "other"
end

-- failed counts requests that the store did not decide.
function M.failed(requests, err)
  local op = #requests == 1 and OPS[requests[1].verb] or "batch"
  add(plain, "errors|" .. op .. "|" .. reason(err))
end

-- fault counts errors of this Lua itself.
function M.fault() add(plain, "faults") end

-- reloaded counts that a plan was taken into use or refused.
function M.reloaded(well) add(plain, well and "reloads|success" or "reloads|failure") end

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

local queue, lost = nil, 0 -- what is asked later, and how much of that was dropped

-- flush adds what this worker has counted up in the dictionary.
function M.flush()
  local dict = ngx.shared.weir
  if not dict then return end
  if queue and queue.dropped > lost then
    plain.dropped, lost = queue.dropped - lost, queue.dropped
  end
  for name, n in pairs(plain) do
    dict:incr("m|" .. name, n, 0)
    plain[name] = nil
  end
  if rest.overflow > 0 then
    dict:incr("m|overflow", rest.overflow, 0)
    rest.overflow = 0
  end
  for _, s in pairs(series) do flush_policy(dict, s) end
  flush_policy(dict, rest)
end

-- keep forgets the series of policies that a plan does not have.
function M.keep(plan)
  M.flush()
  local kept = {}
  for _, p in ipairs(plan.policies) do
    kept[p.name] = true
    kept[p.name .. "~candidate"] = true
  end
  local dict = ngx.shared.weir
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

-- start has the counts of this worker added up every second, and at its end. later is the
-- queue of what is asked after responses.
function M.start(later)
  queue = later
  return ngx.timer.every(1, function()
    local ok, err = pcall(M.flush)
    if not ok then ngx.log(ngx.ERR, "weir: metrics: ", err) end
  end)
end

local function escape(text)
  text = text:sub(1, LONGEST)
  if text:find("[\128-\255]") and not ngx.re.find(text, ".", "jou") then text = text:gsub("[\128-\255]", "?") end
  return (text:gsub('[\\"\n]', { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }))
end

local function head(out, name, kind, help)
  out[#out + 1] = "# HELP " .. name .. " " .. help .. "\n# TYPE " .. name .. " " .. kind .. "\n"
end

local function line(out, name, labels, value)
  out[#out + 1] = name .. (labels ~= "" and "{" .. labels .. "}" or "") .. " " .. string.format("%.17g", value) .. "\n"
end

-- by_policy writes a family whose series are found under a kind of the dictionary.
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

-- degraded writes what was decided without the store, by how.
local function degraded(out, dict, names)
  local family = "weir_degraded_decisions_total"
  head(out, family, "counter", "Requests that were decided without the store, by how.")
  for _, name in ipairs(names) do
    for _, mode in ipairs({ "open", "closed" }) do
      local what = "|" .. name .. "|" .. NAMES[mode]
      local n = (dict:get("m|enforced" .. what) or 0) + (dict:get("m|shadow" .. what) or 0)
      if n > 0 then line(out, family, 'policy="' .. escape(name) .. '",mode="' .. mode .. '"', n) end
    end
  end
end

-- text is all counts, in the text format of Prometheus, with the gauges of this worker: a
-- list of { name, help, value }.
function M.text(plan, gauges)
  M.flush()
  local dict, out, names = ngx.shared.weir, {}, {}
  for _, p in ipairs(plan.policies) do
    names[#names + 1] = p.name
    if p.candidate then names[#names + 1] = p.name .. "~candidate" end
  end
  names[#names + 1] = "other"
  by_outcome(out, dict, names, "weir_decisions_total", "enforced",
    "Requests that an enforced policy was asked about, by what became of them.")
  by_outcome(out, dict, names, "weir_shadow_decisions_total", "shadow",
    "Requests that a policy in shadow was asked about, by what would have become of them.")
  degraded(out, dict, names)
  by_policy(out, dict, names, "weir_expression_errors_total", "expressions",
    "Expressions that could not be evaluated for a request.")
  by_policy(out, dict, names, "weir_unsettled_total", "unsettled",
    "Requests whose cost, known only by their response, could not be charged or given back.")
  head(out, "weir_store_errors_total", "counter", "Requests that the store did not decide, by what it was asked and why.")
  local ops = { "batch" }
  for i = 0, 8 do ops[i + 2] = OPS[i] end
  for _, op in ipairs(ops) do
    for _, why in ipairs(REASONS) do
      local n = dict:get("m|errors|" .. op .. "|" .. why)
      if n then line(out, "weir_store_errors_total", 'op="' .. op .. '",reason="' .. why .. '"', n) end
    end
  end
  head(out, "weir_policies_reload_total", "counter", "Times that policies were read again, by result, of all workers.")
  for _, result in ipairs({ "success", "failure" }) do
    line(out, "weir_policies_reload_total", 'result="' .. result .. '"', dict:get("m|reloads|" .. result) or 0)
  end
  head(out, "weir_policies_version", "gauge", "Always 1; the label is the version of the policies in use.")
  line(out, "weir_policies_version", 'version="' .. string.format("%.17g", plan.version or 0) .. '"', 1)
  head(out, "weir_series_overflow_total", "counter",
    'Events that were counted under "other" because there are too many names, by what they name.')
  line(out, "weir_series_overflow_total", 'kind="policy"', dict:get("m|overflow") or 0)
  head(out, "weir_edge_later_dropped_total", "counter",
    "Requests to the store that found no place among those to be asked after a response.")
  line(out, "weir_edge_later_dropped_total", "", dict:get("m|dropped") or 0)
  head(out, "weir_edge_faults_total", "counter", "Requests that were decided without the store because of an error in Weir itself.")
  line(out, "weir_edge_faults_total", "", dict:get("m|faults") or 0)
  for _, g in ipairs(gauges or {}) do
    head(out, g[1], "gauge", g[2])
    line(out, g[1], "", g[3])
  end
  return table.concat(out)
end

return M
