-- The response fields about limits: X-RateLimit-* (legacy), and RateLimit and
-- RateLimit-Policy of draft 08, byte for byte as httplimit/fields.go writes them.
--
-- An item is an answer of the store with its rule and label. All numbers are integers below
-- 1e14, so that Lua writes them without an exponent.

local floor, max, concat, gsub = math.floor, math.max, table.concat, string.gsub

local M = {}

local LEGACY = { "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset" }
local DRAFT08 = { "Ratelimit-Policy", "Ratelimit" }

-- read returns the forms in a list of names, such as legacy and draft-08: a set, with the
-- fields to send in names. It returns nil and an error for an unknown name.
function M.read(list)
  local forms = { names = {} }
  for _, form in ipairs(list) do
    if form ~= "off" and form ~= "legacy" and form ~= "draft-08" then
      return nil, "fields: " .. tostring(form) .. ": want off, legacy or draft-08"
    end
    forms[form] = true
    for _, name in ipairs(form == "legacy" and LEGACY or form == "draft-08" and DRAFT08 or {}) do
      forms.names[#forms.names + 1] = name
    end
  end
  return forms
end

-- seconds returns µs in whole seconds, rounded up.
local function seconds(us) return floor((us + 999999) / 1000000) end

M.seconds = seconds

-- reset returns the reset of an item in seconds.
local function reset(it)
  if it.ok or it.retry < 0 then return seconds(it.reset) end
  return seconds(it.retry)
end

-- tighter reports whether a is more restrictive than b, as weir.Combine does.
local function tighter(a, b)
  if a.ok ~= b.ok then return not a.ok end
  if not a.ok then
    if b.retry < 0 then return false end
    return a.retry < 0 or a.retry > b.retry
  end
  return max(0, a.remaining) * b.rule.capacity < max(0, b.remaining) * a.rule.capacity
end

-- tightest returns the item that denies longest, or else has the smallest share left; nil
-- for no items.
function M.tightest(items)
  local it = items[1]
  for i = 2, #items do
    if tighter(items[i], it) then it = items[i] end
  end
  return it
end

-- label returns a name as a string of RFC 9651. A byte that such a string cannot hold
-- becomes a question mark.
function M.label(name) return '"' .. gsub(name, '[%c\128-\255"\\]', "?") .. '"' end

local function policy_item(it)
  local rule = it.rule
  local text = it.label .. ";q=" .. rule.capacity
  if rule.lease then text = text .. ';qu="concurrent-requests"' end
  if (rule.window or 0) > 0 then text = text .. ";w=" .. rule.window end
  return text
end

local function limit_item(it) return it.label .. ";r=" .. max(0, it.remaining) .. ";t=" .. reset(it) end

-- join joins format(it) for all items, or, with denied, for those that denied.
local function join(items, format, denied)
  if #items == 1 then return format(items[1]) end
  local list = {}
  for i = 1, #items do
    if not denied or not items[i].ok then list[#list + 1] = format(items[i]) end
  end
  return concat(list, ", ")
end

-- set sets the fields of items that were decided together in h. Without items it sets none.
function M.set(forms, items, h)
  local it = M.tightest(items)
  if not it then return end
  if forms.legacy then
    h["X-Ratelimit-Limit"] = it.rule.capacity
    h["X-Ratelimit-Remaining"] = max(0, it.remaining)
    h["X-Ratelimit-Reset"] = reset(it)
  end
  if forms["draft-08"] then
    h["Ratelimit-Policy"] = join(items, policy_item)
    h["Ratelimit"] = join(items, limit_item, not it.ok)
  end
end

return M
