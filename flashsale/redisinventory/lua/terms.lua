-- Sets the settings that can change while the state is open.
--
-- ARGV: 4 the version of the sale; of one that is not later nothing changes
--       5 end in ms, 6 units per user, 7 time for paying in ms
--       8 how long in ms after its end a state is kept

local s, why = here(load('fixed', 'server'))
if not s then return {'stale', why} end
if tonumber(ARGV[4]) > tonumber(redis.call('HGET', STATE, 'terms') or '0') then
  redis.call('HSET', STATE, 'terms', ARGV[4], 'clock', s.clock, 'fixed', table.concat({num(s.starts), ARGV[5],
    num(s.lobby), s.shuffled and '1' or '0', ARGV[6], ARGV[7], num(s.headroom), num(s.token_for)}, ' '))
  local left = math.max(tonumber(ARGV[5]) - s.us / 1000, 0) + tonumber(ARGV[8])
  for i = 1, 8 do redis.call('PEXPIRE', KEYS[i], num(math.ceil(left))) end
end
return {'ok', s.clock}
