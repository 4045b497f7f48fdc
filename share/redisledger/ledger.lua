-- Loads or swaps rows of a ledger.
--
-- KEYS      the rows
-- ARGV      to load: none; to swap, three for each row: the version that it has (0: there is
--           none), ms for which it is kept, and its bytes
-- returns   to load, two for each row: µs since the epoch, and the row, empty if there is none;
--           to swap, for each row "1" if it was written, else "0"
--
-- A row is 16 digits and its bytes. The digits are the version: µs of the last write, or the
-- former version + 1 if that is larger.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local out = {}
for i, key in ipairs(KEYS) do
  local row = redis.call('GET', key)
  if #ARGV == 0 then
    out[#out + 1] = string.format('%.0f', now)
    out[#out + 1] = row or ''
  else
    local version = row and tonumber(string.sub(row, 1, 16)) or 0
    if version == tonumber(ARGV[3 * i - 2]) then
      redis.call('SET', key, string.format('%016.0f', math.max(now, version + 1)) .. ARGV[3 * i], 'PX', ARGV[3 * i - 1])
      out[i] = '1'
    else
      out[i] = '0'
    end
  end
end
return out
