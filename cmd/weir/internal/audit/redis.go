package audit

import (
	"fmt"
	"strconv"
	"time"
)

// Key is the hash of the audit log in Redis.
const Key = "weir:1:audit{operations}"

func field(id int64) string { return "e:" + strconv.FormatInt(id, 10) }

// Script defines the Lua function append(key, entry) for other scripts. The entry is an [Entry.Encode]
// without ID and At. It returns the ID and the time in ms, for [Entry.Stored].
const Script = `
local function append(key, entry)
  local id = tonumber(redis.call('HGET', key, 'last') or '0') + 1
  local now = redis.call('TIME')
  local text, ms = string.format('%.0f', id), string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
  redis.call('HSET', key, 'e:' .. text, '{"id":' .. text .. ',"at":' .. ms .. ',' .. string.sub(entry, 2), 'last', text)
  redis.call('HDEL', key, 'e:' .. string.format('%.0f', id - 10000))
  return { text, ms }
end
`

// Stored returns e with the ID and the time that append of Script returned.
func (e Entry) Stored(reply []string) (Entry, error) {
	if len(reply) == 2 {
		id, err := strconv.ParseInt(reply[0], 10, 64)
		ms, err2 := strconv.ParseInt(reply[1], 10, 64)
		if err == nil && err2 == nil {
			e.ID, e.At = id, time.UnixMilli(ms).UTC()
			return e, nil
		}
	}
	return e, fmt.Errorf("audit: unexpected reply %.40q", reply)
}

// replace sets the field ARGV[1] of the hash KEYS[1] to ARGV[2] if it exists.
const replace = `
if redis.call('HGET', KEYS[1], ARGV[1]) then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
return 1
`

// readPage returns entries of the hash KEYS[1] before the number ARGV[1], or all if it is 0, newest
// first. ARGV[2] is the number of entries that are kept, ARGV[3] that of a page. The first item is the
// number before which the next page is, or 0.
const readPage = `
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '0')
local before, page = tonumber(ARGV[1]), { '0' }
local id, oldest = last, last - tonumber(ARGV[2]) + 1
if before > 0 and before <= last then id = before - 1 end
if oldest < 1 then oldest = 1 end
while id >= oldest do
  if #page > tonumber(ARGV[3]) then
    page[1] = string.format('%.0f', id + 1)
    break
  end
  local entry = redis.call('HGET', KEYS[1], 'e:' .. string.format('%.0f', id))
  if entry then page[#page + 1] = entry end
  id = id - 1
end
return page
`
