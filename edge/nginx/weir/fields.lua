-- The response fields that tell what is left, in each form that httplimit has, byte for
-- byte. Twin of httplimit/fields.go and serialize.go, where the forms are described.
--
-- An item is what the fields say of one limit: an answer of the store that was also given
-- its rule and its label. All numbers are whole and below 1e14, so that Lua writes
-- them without an exponent.

local floor, max, concat, gsub = math.floor, math.max, table.concat, string.gsub

local M = {}

local NAMES = {
  ["off"] = "off", ["legacy"] = "legacy", ["x-ratelimit"] = "legacy",
  ["draft-03"] = "draft-03", ["draft-06"] = "draft-06", ["draft-07"] = "draft-07",
  ["draft-08"] = "draft-08", ["draft-09"] = "draft-08", ["draft-10"] = "draft-08", ["draft-11"] = "draft-08",
}

local LEGACY = { "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset" }
local DRAFTS = {
  ["draft-03"] = { "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset" },
  ["draft-06"] = { "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit-Policy" },
  ["draft-07"] = { "Ratelimit-Policy", "Ratelimit" },
  ["draft-08"] = { "Ratelimit-Policy", "Ratelimit" },
}

-- read is the forms of a list of names: legacy (a boolean), draft (a name or nil) and
-- names, the fields that they set. No name is legacy and draft-08. It gives nil and an
-- error for forms that contradict each other.
function M.read(list)
  local forms, off = { names = {} }, false
  if list ~= nil and type(list) ~= "table" then return nil, "fields: want a list of names" end
  for _, given in ipairs(list or {}) do
    local name = NAMES[type(given) == "string" and given:lower()]
    if not name then
      return nil, "fields: " .. tostring(given) .. ": want off, legacy, draft-03, draft-06, draft-07 or draft-08"
    elseif name == "off" then
      off = true
    elseif name == "legacy" then
      forms.legacy = true
    elseif forms.draft and forms.draft ~= name then
      return nil, "fields: " .. forms.draft .. " and " .. name .. ": want at most one draft"
    else
      forms.draft = name
    end
  end
  if off and (forms.legacy or forms.draft) then
    return nil, "fields: off and others: want off alone"
  elseif not off and not forms.legacy and not forms.draft then
    forms.legacy, forms.draft = true, "draft-08"
  end
  forms.off = off
  for _, name in ipairs(forms.legacy and LEGACY or {}) do forms.names[#forms.names + 1] = name end
  for _, name in ipairs(DRAFTS[forms.draft] or {}) do forms.names[#forms.names + 1] = name end
  return forms
end

-- seconds is µs in whole seconds, rounded up.
local function seconds(us) return floor((us + 999999) / 1000000) end

M.seconds = seconds

-- reset is what the fields give as the reset of an item.
local function reset(it)
  if it.ok or it.retry < 0 then return seconds(it.reset) end
  return seconds(it.retry)
end

-- tighter reports whether a restrains more than b, as weir.Combine says.
local function tighter(a, b)
  if a.ok ~= b.ok then return not a.ok end
  if not a.ok then
    if b.retry < 0 then return false end
    return a.retry < 0 or a.retry > b.retry
  end
  return max(0, a.remaining) * b.rule.capacity < max(0, b.remaining) * a.rule.capacity
end

-- counting is the item that counts: the one that denies longest, or else has the
-- smallest share left; nil of none.
function M.counting(items)
  local counts = items[1]
  for i = 2, #items do
    if tighter(items[i], counts) then counts = items[i] end
  end
  return counts
end

-- label is what a name is called in the fields and in problems: a string of RFC 9651. A
-- byte that such a string cannot hold becomes a question mark.
function M.label(name) return '"' .. gsub(name, '[%c\128-\255"\\]', "?") .. '"' end

-- policy_item is what Ratelimit-Policy of draft 08 says of an item.
local function policy_item(it)
  local rule = it.rule
  local text = it.label .. ";q=" .. rule.capacity
  if (rule.lease or 0) > 0 then text = text .. ';qu="concurrent-requests"' end
  if (rule.window or 0) > 0 then text = text .. ";w=" .. rule.window end
  return text
end

-- limit_item is what Ratelimit of draft 08 says of an item.
local function limit_item(it) return it.label .. ";r=" .. max(0, it.remaining) .. ";t=" .. reset(it) end

-- join is what of says of every item, or of those that denied alone.
local function join(items, of, denied)
  if #items == 1 then return of(items[1]) end
  local list = {}
  for i = 1, #items do
    if not denied or not items[i].ok then list[#list + 1] = of(items[i]) end
  end
  return concat(list, ", ")
end

-- windows is the policies of drafts 03 to 07: 20;w=2, … Items without a window are left
-- out. With first, they go on a list. It is nil if nothing is on the list.
local function windows(items, first)
  local list = { first }
  for i = 1, #items do
    local w = items[i].rule.window or 0
    if w > 0 then list[#list + 1] = items[i].rule.capacity .. ";w=" .. w end
  end
  return list[1] and concat(list, ", ")
end

-- set calls put(h, name, value) for every field about items that were decided together; a
-- value of nil is no field. Without items it sets none.
function M.set(forms, items, put, h)
  local counts = M.counting(items)
  if not counts or forms.off then return end
  local limit, remaining, left = counts.rule.capacity, max(0, counts.remaining), reset(counts)
  if forms.legacy then
    put(h, "X-Ratelimit-Limit", limit)
    put(h, "X-Ratelimit-Remaining", remaining)
    put(h, "X-Ratelimit-Reset", left)
  end
  local draft = forms.draft
  if draft == "draft-08" then
    put(h, "Ratelimit-Policy", join(items, policy_item))
    put(h, "Ratelimit", join(items, limit_item, not counts.ok))
  elseif draft == "draft-07" then
    put(h, "Ratelimit", "limit=" .. limit .. ", remaining=" .. remaining .. ", reset=" .. left)
    put(h, "Ratelimit-Policy", windows(items))
  elseif draft then
    put(h, "Ratelimit-Limit", draft == "draft-03" and windows(items, limit) or limit)
    put(h, "Ratelimit-Remaining", remaining)
    put(h, "Ratelimit-Reset", left)
    if draft == "draft-06" then
      put(h, "Ratelimit-Policy", windows(items))
    end
  end
end

return M
