-- IP addresses as bytes (4 for IPv4, 16 for IPv6) and as text, in the form of net/netip.

local bit = require "bit"

local M = {}

local byte, char, find, format, match, sub = string.byte, string.char, string.find, string.format, string.match, string.sub
local band, lshift = bit.band, bit.lshift
local concat, floor, tonumber = table.concat, math.floor, tonumber

local MAPPED = ("\0"):rep(10) .. "\255\255"

-- octets returns the bytes of an IPv4 address, or nil.
local function octets(text)
  local a, b, c, d = match(text, "^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$")
  if not a or find(text, "^0%d") or find(text, "%.0%d") then return nil end
  a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
  if a > 255 or b > 255 or c > 255 or d > 255 then return nil end
  return char(a, b, c, d)
end

-- groups returns the bytes of the groups in a text, which are separated by colons. If ends
-- is true, the last may be an IPv4 address.
local function groups(text, ends)
  if text == "" then return "" end
  local out, n, from = {}, 0, 1
  while true do
    local colon = find(text, ":", from, true)
    local group = sub(text, from, (colon or 0) - 1)
    n = n + 1
    if find(group, "^%x%x?%x?%x?$") then
      local v = tonumber(group, 16)
      out[n] = char(floor(v / 256), v % 256)
    elseif ends and not colon then
      out[n] = octets(group)
    end
    if not out[n] then return nil end
    if not colon then return concat(out) end
    from = colon + 1
  end
end

-- parse6 returns the bytes of an IPv6 address, or nil.
local function parse6(text)
  if #text > 45 then return nil end
  local head, tail = match(text, "^(.-)::(.*)$")
  if not head then
    local b = groups(text, true)
    return b and #b == 16 and b or nil
  end
  if find(tail, "::", 1, true) then return nil end
  local a, b = groups(head, false), groups(tail, true)
  if not a or not b or #a + #b > 14 then return nil end
  return a .. ("\0"):rep(16 - #a - #b) .. b
end

-- parse returns the bytes of an address and its zone, if any; nil if the text is no address.
-- An IPv4-mapped IPv6 address has 16 bytes.
function M.parse(text)
  local first = match(text, "[.:%%]")
  if first == "." then return octets(text) end
  if first ~= ":" then return nil end
  local address, zone = match(text, "^([^%%]*)%%(.*)$")
  if zone == "" then return nil end
  local b = parse6(address or text)
  if not b then return nil end
  return b, zone
end

-- unmap returns the IPv4 address of an IPv4-mapped IPv6 address, or the address itself.
function M.unmap(b)
  if #b == 16 and sub(b, 1, 12) == MAPPED then return sub(b, 13) end
  return b
end

-- mapped reports whether an address is an IPv4-mapped IPv6 address.
function M.mapped(b) return #b == 16 and sub(b, 1, 12) == MAPPED end

-- text6 returns the text of an IPv6 address that is not IPv4-mapped.
local function text6(b)
  local g, from, most = {}, 0, 1
  local run = 0
  for i = 1, 8 do
    local high, low = byte(b, 2 * i - 1, 2 * i)
    local v = 256 * high + low
    g[i] = v
    if v == 0 then
      run = run + 1
      if run > most then most, from = run, i - run + 1 end
    else
      run = 0
    end
  end
  local out, n, i = {}, 0, 1
  while i <= 8 do
    n = n + 1
    if i == from then
      out[n] = "::"
      i = i + most
    else
      out[n] = format((i == 1 or from > 0 and i == from + most) and "%x" or ":%x", g[i])
      i = i + 1
    end
  end
  return concat(out)
end

-- text returns the text of an address.
local function text(b)
  if #b == 4 then return format("%d.%d.%d.%d", byte(b, 1, 4)) end
  if sub(b, 1, 12) == MAPPED then return "::ffff:" .. format("%d.%d.%d.%d", byte(b, 13, 16)) end
  return text6(b)
end
M.text = text

-- masked returns an address with all but the first bits cleared.
local function masked(b, bits)
  local whole, rest = floor(bits / 8), bits % 8
  if whole >= #b then return b end
  local last = ""
  if rest > 0 then last = char(band(byte(b, whole + 1), lshift(255, 8 - rest), 255)) end
  return sub(b, 1, whole) .. last .. ("\0"):rep(#b - whole - #last)
end

-- bucket returns the text of an address in a key: an IPv4 address, or the network of the
-- first bits of an IPv6 address.
function M.bucket(b, bits)
  if #b == 4 then return format("%d.%d.%d.%d", byte(b, 1, 4)) end
  if bits == 128 then return text(b) end
  return text(masked(b, bits)) .. "/" .. bits
end

-- network parses a prefix such as 203.0.113.0/24. It returns nil for any other text.
function M.network(t)
  local address, bits = match(t, "^([^/]*)/(%d%d?%d?)$")
  if not address or find(bits, "^0%d") then return nil end
  local b, zone = M.parse(address)
  bits = tonumber(bits)
  if not b or zone or bits > 8 * #b then return nil end
  return { size = #b, head = sub(b, 1, floor(bits / 8)), rest = bits % 8, next = byte(masked(b, bits), floor(bits / 8) + 1) }
end

-- contains reports whether a network contains an address.
function M.contains(net, b)
  local head = net.head
  if #b ~= net.size or sub(b, 1, #head) ~= head then return false end
  return net.rest == 0 or band(byte(b, #head + 1), lshift(255, 8 - net.rest), 255) == net.next
end

return M
