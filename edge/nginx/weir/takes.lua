-- Takes of token buckets and fixed windows, several requests in one call of the script's
-- takes.lua, which documents the call. It replies with the states before the call, and the
-- decisions are computed here. Twin of redisstore/takes.go.
--
-- An op is one admission's requests, decided all or none. After read it has the answers, or
-- general is true: the script left it to its general path.

local ffi = require "ffi"
local name = require("weir.call").name

local byte, find = string.byte, string.find
local floor, max = math.floor, math.max
local tonumber, type = tonumber, type
local ffi_cast, ffi_copy, ffi_string = ffi.cast, ffi.copy, ffi.string

local M = {}
local Batch = {}
Batch.__index = Batch

local TAKE = 0
local NEVER = -1
local MAX = 2^53 - 1
local MAX_TAKES = 1024 -- in a call

local HEAD, UNIT, TAKING = 20, 4, 14 -- bytes
local int64s = ffi.typeof("int64_t[?]")
local head_type = ffi.typeof("struct __attribute__((packed)) { int64_t clock, slack; uint32_t rules; } *")
local unit_type = ffi.typeof("struct __attribute__((packed)) { uint16_t size, times; } *")
local taking_type = ffi.typeof("struct __attribute__((packed)) { uint16_t key; uint32_t rule; int64_t n; } *")
local buffer = ffi.new("uint8_t[?]", HEAD + (UNIT + TAKING) * MAX_TAKES)

-- token_bucket decides a Take of n tokens by a bucket with params p and a debt of d µs and m
-- units. It returns the debt after it, and 0 or the µs until the tokens fit.
local function token_bucket(p, d, m, n)
  if d < 0 then d, m = 0, 0 end
  if n > p[4] then return d, m, NEVER end
  local k, after, rem = p[1], d + n * p[2], m
  local units = n * p[3]
  if units > 0 then
    local whole = floor(units / k)
    after, rem = after + whole, m + units - whole * k
    if rem >= k then after, rem = after + 1, rem - k end
  end
  local wait, part = after - p[5], rem - p[6]
  if part < 0 then wait, part = wait - 1, part + k end
  if wait > 0 or wait == 0 and part > 0 then return d, m, part > 0 and wait + 1 or wait end
  return after, rem, 0
end

-- tokens returns how many tokens a bucket has at least, not below 0.
local function tokens(p, d, m)
  local k, tu, tr, gap, rem = p[1], p[2], p[3], p[5] - d, p[6] - m
  if rem < 0 then gap, rem = gap - 1, rem + k end
  if gap < 0 then return 0 end
  if k == 1 then return floor(gap / tu) end
  local n = floor((gap + rem / k) / (tu + tr / k)) -- off by at most one
  local whole = floor(n * tr / k)
  local over, over_rem = n * tu + whole - gap, n * tr - whole * k - rem
  if over > 0 or over == 0 and over_rem > 0 then return n - 1 end
  over, over_rem = over + tu, over_rem + tr
  if over_rem >= k then over, over_rem = over + 1, over_rem - k end
  if over < 0 or over == 0 and over_rem <= 0 then return n + 1 end
  return n
end

-- fixed_window decides a Take by a window that ends in d µs, in which m tokens are used. It
-- returns both after it, and 0 or the µs until the tokens fit.
local function fixed_window(p, d, m, n, clock)
  if d <= 0 then d, m = 0, 0 end
  if n > p[1] - m then return d, m, n > p[1] and NEVER or d end
  if d == 0 then d = p[3] == 1 and p[2] - clock % p[2] or p[2] end
  return d, m + n, 0
end

-- answer returns an answer as call.lua documents it, and the state after it.
local function answer(rule, d, m, n, clock)
  local p, retry, left, reset = rule.params, nil, nil, nil
  if rule.fixed then
    d, m, retry = fixed_window(p, d, m, n, clock)
    left, reset = p[1] - m, m > 0 and d or 0
  else
    d, m, retry = token_bucket(p, d, m, n)
    left, reset = tokens(p, d, m), m > 0 and d + 1 or d
  end
  local ok = retry == 0
  return {
    ok = ok, granted = ok and n or 0, remaining = max(left, 0), retry = retry, reset = reset, delay = 0, at = clock,
    rule = rule, label = "",
  }, d, m
end

-- prepare gives a rule of a plan its text for the script, unless takes cannot decide it. Every
-- product of tokens and units must be exact.
function M.prepare(r)
  local p, numbers = r.params, nil
  if r.algorithm == "token_bucket" and (p[4] + 1) * p[3] <= MAX then
    numbers = { p[1], p[2], p[3], p[5], p[6] }
  elseif r.algorithm == "fixed_window" and p[2] > 0 then
    numbers, r.fixed = { 0, p[1], p[2], p[3], 0 }, true
  else
    return
  end
  r.takes = ffi_string(int64s(5, numbers), 40) .. (r.stored and ',"' .. r.stored .. '"]' or "]") .. "\0"
end

-- decides reports whether a batch can have requests that are decided all or none.
function M.decides(requests)
  for i = 1, #requests do
    local r = requests[i]
    if r.verb ~= TAKE or r.n <= 0 or not r.rule.takes or r.rule.holds then return false end
  end
  return #requests <= MAX_TAKES
end

-- new returns an empty batch. The names of its states begin with prefix.
function M.new(prefix)
  return setmetatable({
    prefix = prefix, ops = {}, units = {}, texts = "", rules = {}, -- positions in texts
    keys = {}, at = {}, -- names, and their positions in keys
    unit = {}, shared = {}, last = {}, stored = {}, -- by position: the last unit, whether it has others, the last op, the stored rule
    count = 0, key = {}, rule = {}, n = {}, -- of the takings
  }, Batch)
end

-- same reports whether unit u has the takings from a position on, and is the last one of each
-- of their keys: so each key has its requests in their order.
local function same(b, u, from)
  if not u or u.to - u.from ~= b.count - from then return false end
  local before = u.from - from
  for i = from, b.count do
    local j = i + before
    if b.key[i] ~= b.key[j] or b.rule[i] ~= b.rule[j] or b.n[i] ~= b.n[j] or b.unit[b.key[i]] ~= u then return false end
  end
  return true
end

-- position returns the position of a state in keys.
local function position(b, r)
  local text = name(b.prefix, r.key, r.rule)
  local at = b.at[text]
  if not at then
    at = #b.keys + 1
    b.keys[at], b.at[text] = text, at
  end
  return at
end

-- add adds requests. It returns their op; or nil if they have a state twice, or one that the
-- batch has under another rule that is stored with it; or false if the batch is full.
function Batch:add(requests)
  local from, keys, op = self.count + 1, #self.keys, { requests = requests }
  if self.count + #requests > MAX_TAKES or #self.ops >= MAX_TAKES then return false end
  for i = 1, #requests do
    local r = requests[i]
    local rule, at = r.rule, position(self, r)
    if self.last[at] == op or self.last[at] and self.stored[at] ~= rule.stored then
      for k = keys + 1, #self.keys do self.at[self.keys[k]], self.keys[k], self.last[k] = nil, nil, nil end
      self.count = from - 1
      return nil
    end
    self.last[at], self.stored[at] = op, rule.stored
    if not self.rules[rule] then self.rules[rule], self.texts = #self.texts, self.texts .. rule.takes end
    self.count = self.count + 1
    self.key[self.count], self.rule[self.count], self.n[self.count] = at, rule, r.n < MAX and r.n or MAX
  end
  self.ops[#self.ops + 1] = op
  local u = self.unit[self.key[from]]
  if same(self, u, from) then
    u[#u + 1] = op
    self.count = from - 1
    return op
  end
  u = { op, from = from, to = self.count }
  self.units[#self.units + 1] = u
  for i = from, self.count do
    local at = self.key[i]
    self.unit[at], self.shared[at] = u, self.unit[at] ~= nil
  end
  return op
end

-- drop removes the ops that are gone.
function Batch:drop()
  local function live(list)
    local all = {}
    for i = 1, #list do
      if not list[i].gone then all[#all + 1] = list[i] end
    end
    return all
  end
  self.ops = live(self.ops)
  for i = 1, #self.units do
    local u = self.units[i]
    local ops = live(u)
    for j = 1, #u do u[j] = ops[j] end
  end
end

-- pack returns KEYS and ARGV.
function Batch:pack()
  local units, size = self.units, HEAD
  local rules = HEAD + UNIT * #units + TAKING * self.count + 1
  local head = ffi_cast(head_type, buffer)
  head.clock, head.slack, head.rules = 0, 0, rules
  for i = 1, #units do
    local u = units[i]
    local single = u.from == u.to and not self.shared[self.key[u.from]]
    local unit = ffi_cast(unit_type, buffer + size)
    unit.size, unit.times = single and 0 or u.to - u.from + 1, #u
    size = size + UNIT
    for j = u.from, u.to do
      local taking = ffi_cast(taking_type, buffer + size)
      taking.key, taking.rule, taking.n = self.key[j], rules + self.rules[self.rule[j]], self.n[j]
      size = size + TAKING
    end
  end
  return self.keys, { ffi_string(buffer, size) .. self.texts }
end

-- states returns the debts or windows and the numbers of the states in a reply; or nil.
local function states(b, reply, at, clock)
  local d, m, count = {}, {}, #b.keys
  for i = 1, count do
    local c = byte(reply, at)
    if not c or c == 10 then
      d[i], m[i] = 0, 0
    else
      local _, to, us, rest = find(reply, "^%[(%-?%d+),(%-?%d+),[^\n]*", at)
      if not to then return nil end
      d[i], m[i], at = tonumber(us) - clock, tonumber(rest), to + 1
    end
    if (byte(reply, at) == 10) ~= (i < count) then return nil end
    at = at + 1
  end
  return d, m
end

local after, rest = {}, {} -- of the op that is decided

-- decide answers an op of a unit. It returns 1 if it is admitted, else 0, and changes d and m
-- if it is.
local function decide(b, u, op, d, m, clock)
  local answers, ok = {}, true
  for i = u.from, u.to do
    local at, a = b.key[i], nil
    a, after[at], rest[at] = answer(b.rule[i], d[at], m[at], b.n[i], clock)
    answers[i - u.from + 1], ok = a, ok and a.ok
  end
  answers.ok, op.answers = ok, answers
  if not ok then return 0 end
  for i = u.from, u.to do
    local at = b.key[i]
    d[at], m[at] = after[at], rest[at]
  end
  return 1
end

local numbers = ffi.new("int64_t[2]")

-- read decides all ops by the reply of the script, a text. It returns nil or an error.
function Batch:read(reply)
  if type(reply) ~= "string" or #reply < 18 then return "a reply that is not the script's" end
  ffi_copy(numbers, reply, 16)
  local clock, admitted = tonumber(numbers[0]), tonumber(numbers[1])
  local wrong = byte(reply, 17) + 256 * byte(reply, 18)
  local d, m
  if admitted >= 0 then d, m = states(self, reply, 19 + 2 * wrong, clock) end
  if admitted >= 0 and not d then return "states that are not the script's" end
  local at, sum = 19, 0
  for i = 1, #self.units do
    local u = self.units[i]
    local undecided = not d
    if d and wrong > 0 and byte(reply, at) + 256 * byte(reply, at + 1) == i - 1 then
      undecided, wrong, at = true, wrong - 1, at + 2
    end
    for j = 1, #u do
      if undecided then u[j].general = true else sum = sum + decide(self, u, u[j], d, m, clock) end
    end
  end
  if d and (sum ~= admitted or wrong > 0) then return "the script admitted " .. admitted .. " and not " .. sum end
end

return M
