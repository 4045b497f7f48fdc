-- The call, and its lean road: one request of the kind that nearly all are.
--
-- KEYS      states; hold keys, each directly before its deadlines key
-- ARGV[1]   clock    µs since the epoch; 0: the server's own clock
-- ARGV[2]   slack    ms by which every TTL is prolonged
-- ARGV[3]   all      1: charge all requests or none; 0: each for itself
-- ARGV[4]   how many requests follow; five arguments each:
--             key      index in KEYS of its state
--             rule     index in ARGV of its rule: a name, then the params and
--                      the horizon, each 8 bytes, little-endian
--             verb, n  what is asked, and for how many tokens
--             more     index in ARGV of the rest (see holds.lua), or 0
-- returns   seven values per request:
--             code     0 denied, 1 OK, 2 no such reservation, 3 not decided: the
--                      hold keys have to be declared; or this request's error
--             granted, balance, retry µs (-1 never), reset µs, delay µs, now µs
--
-- A state is the text [word,word,…,last] or, while the key has holds,
-- [word,word,…,last,[due,far]]: last is the largest instant at which it was
-- written, due and far the first and the last deadline of its holds.
--
-- Nothing is written before everything is decided, and nothing for a request
-- that is denied.

local clock = ARGV[1] + 0
if clock == 0 then
  local t = call('TIME')
  clock = t[1] * 1000000 + t[2]
end

if ARGV[4] == '1' and ARGV[9] == '0' then
  local verb, n, v, s, last = ARGV[7] + 0, ARGV[8] + 0, redis.pcall('GET', KEYS[1]), nil, 0
  if not v then
    s = {}
  elseif type(v) == 'string' then
    local fine
    fine, s = pcall(cjson.decode, v)
    if fine and type(s) == 'table' then
      local c = #s
      last, s[c] = s[c], nil
    end
    if type(last) ~= 'number' then last = clock + 1 end
  end
  if s and last <= clock and verb < RESET then
    local rule = ARGV[6] + 0
    local twin, p = use(ARGV[rule]), nil
    rule = ARGV[rule + 1]
    if #rule == 64 then
      p = { struct.unpack('<i8i8i8i8i8i8i8', rule) }
    else
      p = { struct.unpack('<' .. string.rep('i8', #rule / 8 - 1), rule) }
    end
    p[#p] = nil
    if verb == TAKE and n == 0 then verb = PEEK end
    local ok, granted, balance, retry, reset, delay = twin.decide(s, p, verb, clock, n, 0, 0, 0)
    if not ok then return { 0, granted, balance, retry, reset, delay, clock } end
    if verb ~= PEEK then
      if reset > 0 then
        local text
        if #s == 2 then
          text = format('[%d,%d,%d]', s[1], s[2], clock)
        else
          text = use('call').text(s, clock)
        end
        call('SET', KEYS[1], text, 'PX', format('%d', (reset + 999) / 1000 + 1 + ARGV[2]))
      elseif v then
        call('DEL', KEYS[1])
      end
    end
    return { 1, granted, balance, retry, reset, delay, clock }
  end
end

return use('call').run(clock)
