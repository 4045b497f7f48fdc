-- The entry point, and the fast path of one request. A call with one argument has the form of
-- takes.lua. Any other call:
--
-- KEYS      states; keys of reservations, each directly before its key of deadlines
-- ARGV[1]   numbers of 8 bytes, little-endian:
--             clock    µs since the epoch; 0: the clock of the server
--             slack    ms added to every TTL
--             mode     0: each request by itself; 1: charge all or none; 2: as 1,
--                      but charge nothing; 3: as 1 if one is denied; 4: groups of
--                      requests, one after the other, each as 1. The last argument
--                      has their sizes, packed likewise
--           then five for each request:
--             key      index in KEYS of its state
--             rule     index in ARGV of its rule: the name; the params and, last,
--                      the refill time follow in ARGV[rule + 1], packed likewise. It
--                      is negative for a named state: ARGV[2 - rule] is then the rule's
--                      text, NAME PARAM,PARAM,…, which is stored with the state
--             verb, n  weir.Verb and tokens
--             more     index in ARGV of the rest (see reservations.lua), or 0
-- returns   for each request "!" and its error, or seven numbers, packed likewise:
--             code     0 denied, 1 OK, 2 no such reservation, 3 not decided: the
--                      call must declare the keys of reservations, 4 OK, and
--                      reserved before, 5 not decided: the call must have all params
--                      (tenant_bucket.lua), 6 OK, of a credit, 7 OK, of the pool
--             granted, balance, retry µs (-1 never), reset µs, delay µs, now µs
--
-- A state is the text [word,word,…,last] or, while the key has reservations,
-- [word,word,…,last,[due,far]]: last is the latest instant at which it was written,
-- due and far are the first and the last deadline of its reservations. After the clock was
-- set back it ends with [ahead] or [due,far,ahead] (see guard in call.lua). A named state
-- ends with the text of the rule that wrote it, in quotes. If a request comes under
-- another rule, the state is migrated first (migrate.lua).
--
-- The script writes after all decisions. It writes nothing for a request that is
-- denied or takes 0 tokens, except state that precedes the decision: a state migrated or
-- carried over from an older limit, the first use of a key (primed.lua), and reservations
-- that expired (reservations.lua).

if not ARGV[2] then
  if KEYS[2] then return use('takes') end
  return use('take') -- script.go puts the file here
end

local clock, slack, mode, key, rule, verb, n, more = struct.unpack('<i8i8i8i8i8i8i8i8', ARGV[1])
if clock == 0 then
  local t = redis.call('TIME')
  clock = t[1] * 1000000 + t[2]
end

if #ARGV[1] == 64 and more == 0 and verb < RESET and mode < 2 then
  local twin, rule_text = use(ARGV[2]), ARGV[4]
  -- A twin that loads its own state takes the general path.
  local v, s, last = twin.load and {} or redis.pcall('GET', KEYS[1]), nil, 0
  if not v then
    s = {}
  elseif type(v) == 'string' then
    local fine
    fine, s = pcall(cjson.decode, v)
    if fine and type(s) == 'table' then
      local c = #s
      if rule_text then
        if s[c] == rule_text then s[c] = nil else s[c] = {} end -- another rule: the general path
        c = #s
      end
      last, s[c] = s[c], nil
      if type(last) ~= 'number' then s = nil end
    else
      s = nil
    end
  end
  if s and last <= clock then
    local p = ARGV[3]
    if #p == 64 then
      p = { struct.unpack('<i8i8i8i8i8i8i8', p) }
    else
      p = { struct.unpack('<' .. string.rep('i8', #p / 8 - 1), p) }
    end
    p[#p] = nil
    local ok, granted, balance, retry, reset, delay, keep = twin.decide(s, p, verb, clock, n, 0, 0, 0)
    if keep or ok and n > 0 and verb ~= PEEK then
      if reset > 0 then
        local text
        if #s == 2 and rule_text then
          text = string.format('[%d,%d,%d,"%s"]', s[1], s[2], clock, rule_text)
        elseif #s == 2 then
          text = string.format('[%d,%d,%d]', s[1], s[2], clock)
        else
          text = use('call').text(s, clock, nil, nil, rule_text)
        end
        local ttl = math.floor((clock + reset) / 1024000) * 1024 + 1025 + slack - math.floor(clock / 1000) -- as in call.lua
        redis.call('SET', KEYS[1], text, 'PX', string.format('%d', ttl))
      elseif v then
        redis.call('DEL', KEYS[1])
      end
    end
    return { struct.pack(ANSWER, ok and 1 or 0, granted, balance, retry, reset, delay, clock) }
  end
end

return use('call').run(clock, slack, mode)
