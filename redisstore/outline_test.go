package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

func TestOutline(t *testing.T) {
	const day, hour = 24 * 3600_000_000, 3600_000_000
	for text, want := range map[string]string{
		"2/s fixed_window":                "{fixed_window [2 1000000 0 1000000] 2/s+fixed_window }",
		"3 concurrency":                   "{concurrency [3 60000000 60000000] 3+concurrency+lease+1m }",
		"10/s burst 20":                   "{token_bucket [1 100000 0 20 2000000 0 31557600000 2000000] 10/s+burst+20 }",
		"1/s burst 2 initial 0":           "{primed/token_bucket [2 86400000000 1 1000000 0 2 2000000 0 3155760000 2000000] 1/s+burst+2+initial+0 }",
		"2/s leaky_bucket burst 4 shared": "{leaky_bucket [1 500000 0 5 2500000 0 6311520000 0 500000 0 2500000] 2/s+leaky_bucket }",
		"9/day calendar Etc/GMT-1":        fmt.Sprintf("{fixed_window [9 0 %d %d %d %d %d %d] 9/day+fixed_window+calendar+Etc/GMT-1 }", 8*day-hour, 9*day-hour, 10*day-hour, 11*day-hour, 12*day-hour, day+2*hour),
	} {
		if got := fmt.Sprint(redisstore.Outline(weir.MustLimit(text), 9*day+5)); got != want {
			t.Errorf("Outline(%s) = %s, want %s", text, got, want)
		}
	}
	want := "{concurrency [3 60000000 60000000] =slots concurrency 3,60000000,60000000}"
	if got := fmt.Sprint(redisstore.Outline(weir.MustLimit("3 concurrency").Named("slots"), 0)); got != want {
		t.Errorf("Outline of a named limit = %s, want %s", got, want)
	}
}
