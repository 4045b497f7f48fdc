-- Twin of internal/algo/migrate.go, where the rules are: the state under one limit becomes that
-- under another. A rule is { name = …, twin = …, p = params }.

local floor, match = math.floor, string.match
local e = use('emission')

local ONE = 4503599627370496 -- 2^52: one token, in the units of a credit

-- mulmod returns floor(a * b / m) and the remainder, for a < m <= 2^52 and b <= 2^52.
local function mulmod(a, b, m)
  local whole, rest, bit = 0, 0, ONE
  while bit >= 1 do
    whole, rest = whole * 2, rest * 2
    if rest >= m then whole, rest = whole + 1, rest - m end
    if b >= bit then
      b, rest = b - bit, rest + a
      if rest >= m then whole, rest = whole + 1, rest - m end
    end
    bit = bit / 2
  end
  return whole, rest
end

-- convert returns the time under q of the tokens that take (us, rem) under p, and the credit.
-- most is the largest number of tokens under each that a cost counts.
local function convert(p, most_p, us, rem, credit, q, most_q)
  local k, tu, tr = p[1], p[2], p[3]
  local k2, tu2, tr2 = q[1], q[2], q[3]
  local unit, unit2 = tu * k + tr, tu2 * k2 + tr2
  if us >= MAX_SPAN then us, rem = MAX_SPAN, 0 end
  local n = e.divide(k, tu, tr, us, rem)
  local cu, cr = e.cost(k, tu, tr, most_p, n)
  local fu, fr = e.sub(k, us, rem, cu, cr)
  if n == MAX_COUNT then fu, fr = 0, 0 end
  local part, rest = mulmod(fu * k + fr, unit2, unit)
  if rest > 0 or credit > 0 then
    local less, fine = mulmod(credit, unit2, ONE)
    local more, lost = mulmod(rest, ONE, unit)
    if lost > 0 then more = more + 1 end
    part = part - less
    local over = fine - more
    if over < 0 then part, over = part + 1, over + ONE end
    credit = floor(over / unit2)
  end
  if part < 0 then n, part = n - 1, part + unit2 end
  if n < 0 then return 0, 0, 0 end
  if n > most_q then return MAX_SPAN, 0, 0 end
  us, rem = e.cost(k2, tu2, tr2, most_q, n)
  local whole = floor(part / k2)
  us, rem = e.add(k2, us, rem, whole, part - whole * k2)
  if us >= MAX_SPAN then return MAX_SPAN, 0, 0 end
  return us, rem, credit
end

local function bucket(s, p, q, now)
  local us, rem, credit = convert(p, p[7], s[1] - now, s[2], s[3] or 0, q, q[7])
  if us == 0 and rem == 0 then return {} end
  return { now + us, rem, credit > 0 and credit or nil }
end

local M = { token_bucket = bucket }

function M.interval_bucket(s, p, q, now)
  local start, missing, period = s[1], s[2], p[2]
  local j = floor((now - start) / period)
  if j > 0 then
    if j * p[1] >= missing then return {} end
    start, missing = start + j * period, missing - j * p[1]
  end
  if period ~= q[2] then start = q[4] == 1 and now - now % q[2] or now end
  return { start, missing < q[5] and missing or q[5] }
end

function M.warmup_bucket(s, p, q, now)
  local k, k2, d, dr, m, credit = p[1], q[1], s[1] - now, s[2], s[3], s[4] or 0
  if d < 0 then
    local us, rem = e.sub(k, 0, 0, d, dr)
    m = us >= p[6] and 0 or math.max(0, m - us * k - rem)
    d, dr, credit = 0, 0, 0
  end
  d, dr, credit = convert(p, p[5], d, dr, credit, q, q[5])
  local w, w2 = p[6] * k, q[6] * k2
  if m >= w then m = w2 else m = mulmod(m, w2, w) end
  if d == 0 and dr == 0 and m == 0 then return {} end
  return { now + d, dr, m, credit > 0 and credit or nil }
end

function M.limit_req(s, p, q, now)
  local last, backlog = s[1], s[2]
  local ms = math.max(1, floor(now / 1000)) - last
  if ms > 0 then
    local drained = floor(p[1] * ms / 1000)
    last, backlog = last + ms, backlog - drained
    if q[1] > p[1] and p[1] * ms > drained * 1000 then backlog = backlog - 1 end
  end
  if backlog <= 0 then return {} end
  return { last, backlog < q[3] and backlog or q[3] }
end

function M.fixed_window(s, p, q, now)
  return { math.min(s[1], use('fixed_window').stop(q, now)), s[2] }
end

function M.sliding_window(s, p, q, now)
  local length, newest, used = p[2], s[1] - 1, false
  local function at(i)
    if length == q[2] then return newest - i end
    return floor(math.max((newest - i) * length, math.min(now, (newest - i + 1) * length - 1)) / q[2])
  end
  local first, current = at(0), math.max(newest, floor(now / length))
  local t = { first + 1 }
  for j = 2, q[4] + 1 do t[j] = 0 end
  for i = 0, p[4] - 1 do
    local c, j = s[i + 2] or 0, first - at(i) + 2
    if current - newest + i >= p[4] then break end -- it counts no longer
    if c > 0 and j <= q[4] + 1 then
      t[j], used = math.min(t[j] + c, q[5]), true
    end
  end
  return used and t or {}
end

function M.sliding_log(s, p, q, now)
  use('sliding_log').keep(s, math.max(1, math.max(now, s[1]) - p[2] + 1))
  return s
end

function M.tenant_bucket(s, p, q, now) return use('tenant_bucket').migrate(s, p, q, now) end

-- capacity returns the most tokens of a Take.
local function capacity(rule)
  local name, p = rule.name, rule.p
  if name == 'tenant_bucket' then return floor(math.max(p[8], p[5]) / p[2]) end
  if name == 'token_bucket' or name == 'leaky_bucket' or name == 'warmup_bucket' then return p[4] end
  if name == 'interval_bucket' then return p[3] end
  if name == 'limit_req' then return p[2] / 1000 end
  return p[1]
end

local function family(name) return name == 'leaky_bucket' and 'token_bucket' or name end

local function tail(list, n)
  local out = {}
  for i = n + 1, #list do out[i - n] = list[i] end
  return out
end

-- inner returns the rule that a primed one is around, or nil.
local function inner(rule)
  local name = match(rule.name, '^primed/(.+)$')
  return name and { name = name, twin = use(name), p = tail(rule.p, 2) }
end

local function reset(rule, s, now)
  local _, _, _, _, live = rule.twin.decide(s, rule.p, PEEK, now, 0, 0, 0, 0)
  return live
end

-- SAME has the params that rules with the same states have in common.
local SAME = {
  token_bucket = { 1, 2, 3 }, interval_bucket = { 1, 2, 3, 4 }, warmup_bucket = { 1, 2, 3, 6 }, limit_req = { 1 },
  fixed_window = { 2, 3 }, sliding_window = { 2, 4, 5 }, sliding_log = { 2 }, concurrency = {}, tenant_bucket = { 1 },
}

-- same is SameState of algo.
local function same(from, to)
  local name = family(from.name)
  if name ~= family(to.name) then return false end
  local f, p, q = inner(from), from.p, to.p
  if f then return p[2] == q[2] and same(f, inner(to)) end
  for _, i in ipairs(SAME[name]) do
    if p[i] ~= q[i] then return false end
  end
  return name ~= 'fixed_window' or p[2] > 0
end

-- migrate returns the state under to of a key with the state s under from. It may return s.
local function migrate(from, s, to, now)
  if reset(from, s, now) == 0 then return {} end
  if same(from, to) then return s end
  local f, t = inner(from), inner(to)
  if f then from, s = f, tail(s, 1) end
  if t then
    local made = migrate(from, s, t, now)
    return { now + reset(t, made, now) + to.p[2], unpack(made) }
  end
  if reset(from, s, now) == 0 then return {} end
  if same(from, to) then return s end
  local name = family(from.name)
  if name == family(to.name) then return M[name](s, from.p, to.p, now) end
  local _, _, balance = from.twin.decide(s, from.p, PEEK, now, 0, 0, 0, 0)
  local made, used = {}, capacity(from) - balance
  if used > 0 then to.twin.decide(made, to.p, CHARGE, now, used, 0, 0, 0) end
  return made
end

-- WORDS has the number of words before a credit.
local WORDS = {
  token_bucket = 2, leaky_bucket = 2, warmup_bucket = 3, ['primed/token_bucket'] = 3,
}

-- without_credit drops the credit of a state: one change is worth no word of its own.
local function without_credit(name, s)
  if WORDS[name] then s[WORDS[name] + 1] = nil end
  return s
end

return { migrate = migrate, without_credit = without_credit, mulmod = mulmod }
