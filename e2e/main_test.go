package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
)

// minParallel is the least number of parallel tests: they wait for servers more than they
// compute. A test is not parallel if it wants more than a busy machine may do in a time, or reads
// what other tests of the process change.
const minParallel = 5

func TestMain(m *testing.M) {
	if addr := os.Getenv(slowUpstreamEnv); addr != "" {
		fmt.Fprintln(os.Stderr, serveSlowUpstream(addr))
		os.Exit(1)
	}
	if addr := os.Getenv(shareProcessEnv); addr != "" {
		fmt.Fprintln(os.Stderr, shareProcess(addr))
		os.Exit(1)
	}
	flag.Parse()
	if n, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); err == nil && n < minParallel {
		flag.Set("test.parallel", strconv.Itoa(minParallel))
	}
	os.Exit(m.Run())
}
