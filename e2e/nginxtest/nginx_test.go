package nginxtest_test

import (
	"testing"

	"github.com/floodweir/weir/e2e/nginxtest"
)

// TestLua checks that the module is loaded and runs code.
func TestLua(t *testing.T) {
	if got := nginxtest.Lua(t, `ngx.print(#require("cjson").decode(ngx.req.get_body_data()), " ", jit.version ~= nil)`, "[1,2,3]"); got != "3 true" {
		t.Errorf("got %q, want 3 true", got)
	}
}
