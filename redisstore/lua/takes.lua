-- The fast branch: Takes of token buckets and fixed windows, single ones and groups that charge all
-- or none.
--
-- KEYS      states, each once
-- ARGV[1]   packed, little-endian: clock and slack, as in main.lua, 8 bytes each, and the index of
--           the rules, 4 bytes. Units follow. A unit is a group of requests of different keys that
--           several callers made:
--             size     requests of the group, 2 bytes; 0 for one request whose state no other unit has
--             times    callers, 2 bytes: their groups are decided one after the other
--           then for each request:
--             key      index in KEYS, 2 bytes
--             rule     index in ARGV[1] of its rule, 4 bytes
--             n        tokens, 8 bytes
--           Rules end the text: five numbers of 8 bytes, and the end of the text of a state, after
--           its three numbers, with a zero. The numbers of a token bucket are k, T as µs and units,
--           and cost(burst) as µs and units; of a fixed window 0, the count, the period, and 1 if
--           windows begin at multiples of it, else 0
-- returns   packed: the clock and the admissions, 8 bytes each, then the number of units that were
--           not decided and the index of each from 0, 2 bytes each; or -1 admissions if none was
--           decided. Then the text of each state before the call, '' if there is none, separated by
--           line feeds
--
-- The caller computes the decisions from that with the twins, internal/algo/token_bucket.go and
-- internal/algo/fixed_window.go. Of the equal groups of a unit, as many are admitted as fit: the
-- first ones. A unit is not decided, and writes nothing, if a state is of another rule, is no state,
-- has reservations, or is later than the clock: the general path decides these. So it does with all
-- units if a text that ends as a state is none.
--
-- A state is an instant and a number: the units of a TAT, or the tokens used in a window.
-- Bytecode and tables cost as much here as the commands, so a unit of one request uses no table.

local unpack_bytes, call, floor, format = struct.unpack, redis.call, math.floor, string.format
local head, keys = ARGV[1], KEYS
local clock, slack, stop = unpack_bytes('<i8i8I4', head)
local texts
local writes = {} -- key, text and, unless the TTL stays, the slot of the new one: see write in call.lua

-- decide decides all units. It returns the clock, the admissions and the undecided units, packed.
local function decide()
  local sub, byte, states, out, count, at, stop, clock = string.sub, string.byte, texts, writes, 0, 21, stop, clock
  local written = format(',%d', clock)
  local now = #written == 17 and written or '' -- the order of texts is that of instants of 16 digits
  local admitted, wrong, undecided, index = 0, 0, '', 0
  local owed, rest, slots -- of states by key, unless only one request has them: d, rem and slot below
  local group, ns, rs -- of the requests of a unit: key, n and rule
  local rules = {}
  local begin, us -- of the last state that was read: its text, and the instant
  local due_text, due_known -- of the last window that was written
  -- Of a window, k is 0, tu the count, and tr the time until the end of a window that begins at clock.
  local current, r, k, tu, tr, span, span_rem, tail, sealed
  while at < stop do
    local size, times, key, rule, n = unpack_bytes('<I2I2I2I4i8', head, at)
    local shared = size > 0
    if shared then
      if not owed then owed, rest, slots, group, ns, rs = {}, {}, {}, {}, {}, {} end
    else
      size = 1
    end
    local fits = times
    at = at + 4
    local d, rem, slot
    for i = 1, size do
      if i > 1 then key, rule, n = unpack_bytes('<I2I4i8', head, at) end
      at = at + 14
      if rule ~= current then
        r = rules[rule]
        if not r then
          r = { unpack_bytes('<i8i8i8i8i8s', head, rule) }
          if r[1] == 0 and r[4] == 1 then r[3] = (floor(clock / r[3]) + 1) * r[3] - clock end
          r[7] = written .. r[6]
          rules[rule] = r
        end
        current, k, tu, tr, span, span_rem, tail, sealed = rule, r[1], r[2], r[3], r[4], r[5], r[6], r[7]
      end
      if shared then group[i], ns[i], rs[i] = key, n, r end
      d = shared and owed[key]
      if d then
        rem = rest[key]
      else
        local v = states[key]
        if not v then
          states[key], d, rem, slot = '', 0, 0, nil
        else
          local c = #v - #tail
          -- 93 is the bracket after the deadlines of reservations or the span of a clock that was set
          -- back. An instant has 16 digits from 2001 to 2286.
          if sub(v, c + 1) == tail and byte(v, c) ~= 93 then
            if sub(v, c - 16, c) <= now then
              local text = sub(v, 2, 17)
              if text ~= begin then us, begin = text + 0, text end
              d, slot = us - clock, floor(us / 1024000)
              if d < 0 or d == 0 and k == 0 then d, rem = 0, 0 else rem = sub(v, 19, c - 17) + 0 end
            end
          end
        end
        if not d then
          states[key] = ''
        elseif shared then
          owed[key], rest[key], slots[key] = d, rem, slot
        end
      end
      if not d then
        fits = -1
      elseif fits > 0 then
        local left
        if k == 1 then
          left = floor((span - d) / tu / n) -- exact, since span is at most 100 years
        elseif k == 0 then
          left = floor((tu - rem) / n)
        else
          left = floor(use('token_bucket').balance(r, span - d, span_rem - rem) / n)
        end
        if left < fits then fits = left > 0 and left or 0 end
      end
    end
    if fits < 0 then
      undecided, wrong = undecided .. struct.pack('<I2', index), wrong + 1
    elseif fits > 0 then
      admitted = admitted + fits
      for i = 1, size do
        if shared then
          key, n = group[i], ns[i]
          if rs[i] ~= r then
            r = rs[i]
            current, k, tu, tr, sealed = nil, r[1], r[2], r[3], r[7]
          end
          d, rem, slot = owed[key], rest[key], slots[key]
        end
        n = fits * n
        if k == 1 then
          d = d + n * tu
        elseif k == 0 then
          if d == 0 then d = tr end
          rem = rem + n
        else
          local cost, units = n * tu, n * tr
          if units > MAX_INSTANT then
            cost, units = use('emission').product(k, tu, tr, n)
          else
            local whole = floor(units / k)
            cost, units = cost + whole, units - whole * k
          end
          d, rem = d + cost, rem + units
          if rem >= k then d, rem = d + 1, rem - k end
        end
        if shared then owed[key], rest[key] = d, rem end
        local due = clock + d
        local ends = floor(due / 1024000)
        out[count + 1] = key
        if k == 0 and r[4] == 1 then -- windows that begin together
          if due ~= due_known then due_known, due_text = due, format('[%d,', due) end
          out[count + 2] = due_text .. format('%d', rem) .. sealed
        else
          out[count + 2] = (rem == 0 and format('[%d,0', due) or format('[%d,%d', due, rem)) .. sealed
        end
        out[count + 3] = ends ~= slot and ends
        count = count + 3
      end
    end
    index = index + 1
  end
  return struct.pack('<i8i8I2', clock, admitted, wrong) .. undecided
end

if clock == 0 then
  local t = call('TIME')
  clock = t[1] * 1000000 + t[2]
end
if #keys == 1 then
  local v = redis.pcall('GET', keys[1])
  if type(v) == 'table' then v = '' end -- of another type
  texts = { v or '' }
else
  texts = call('MGET', unpack(keys))
  local absent, n = {}, 0
  for i = 1, #keys do
    if not texts[i] then
      n = n + 1
      absent[n] = keys[i]
    end
  end
  if n > 0 and call('EXISTS', unpack(absent)) > 0 then -- of another type
    for i = 1, #keys do
      if not texts[i] and call('EXISTS', keys[i]) > 0 then texts[i] = '' end
    end
  end
end

local fine, reply = pcall(decide)
if not fine then return struct.pack('<i8i8I2', clock, -1, 0) end

for i = 1, #writes, 3 do
  local slot = writes[i + 2]
  if slot then
    call('SET', keys[writes[i]], writes[i + 1], 'PX', format('%d', slot * 1024 + 1025 + slack - floor(clock / 1000)))
  else
    call('SET', keys[writes[i]], writes[i + 1], 'KEEPTTL')
  end
end
texts[1] = reply .. texts[1] -- a text costs its length each time that it is made
return table.concat(texts, '\n')
