package edge_test

import (
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// TestRandom checks that random IDs are unique and random numbers are within their range.
func TestRandom(t *testing.T) {
	got := nginxtest.Lua(t, `
local random = require "weir.crypto"
local ids, again, wrong, seen, count = {}, 0, 0, {}, 0
for i = 1, 1000 do
  local id = random.id()
  if ids[id] then again = again + 1 end
  if #id ~= 22 then wrong = wrong + 1 end
  ids[id] = true
  for _ = 1, 3 do -- so that draws end at other places each time
    local n = random.below(10)
    if n % 1 ~= 0 or n < 0 or n > 9 then wrong = wrong + 1 end
    if not seen[n] then seen[n], count = true, count + 1 end
  end
  if random.below(1) ~= 0 then wrong = wrong + 1 end
end
ngx.print(again, " ", wrong, " ", count)
`, "")
	if got != "0 0 10" {
		t.Errorf("ids that came twice, what is out of range, and numbers below 10 that came: %q, want 0 0 10", got)
	}
}
