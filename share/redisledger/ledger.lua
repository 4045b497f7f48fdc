-- Loads or swaps rows of a ledger.
--
-- KEYS      the rows
-- ARGV      to load: none; to swap, three for each row: the version that it has (0: there is
--           none), ms for which it is kept, and its bytes
-- returns   two for each row: µs since the epoch, and the row, empty if there is none. To swap, the
--           first is empty if the row was written.
--
-- A row is 16 digits and its bytes. The digits are the version: µs of the last write, or the
-- former version + 1 if that is larger.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local out = {}
for i, key in ipairs(KEYS) do
  local row = redis.call('GET', key)
  local version = row and tonumber(string.sub(row, 1, 16)) or 0
  if version == tonumber(ARGV[3 * i - 2]) then
    redis.call('SET', key, string.format('%016.0f', math.max(now, version + 1)) .. ARGV[3 * i], 'PX', ARGV[3 * i - 1])
    out[2 * i - 1], out[2 * i] = '', ''
  else
    out[2 * i - 1], out[2 * i] = string.format('%.0f', now), row or ''
  end
end
return out
