package flashsale_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// minParallel is the minimum number of parallel tests.
const minParallel = 6

func TestMain(m *testing.M) {
	// The tests wait for servers more than they use the CPU.
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < minParallel {
		flag.Set("test.parallel", strconv.Itoa(minParallel))
	}
	os.Exit(m.Run())
}
