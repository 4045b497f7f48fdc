// Package browsertest drives a headless Chromium in tests: chromedp with the flags, the
// time limits and the failure messages that the tests share.
package browsertest

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const (
	stepTimeout = time.Minute // of one step: the machine may be busy with other tests
	// The first start on a machine reads the browser and its fonts from the disk.
	startTimeout = 2 * time.Minute
)

// A Browser is one Chromium process. Each of its Pages has its own profile.
type Browser struct{ ctx context.Context }

// find returns the path of Chromium. Its headless shell renders and scripts pages alike and has
// no windows, address bar and profiles of a user, so it takes half the CPU time.
func find() (string, error) {
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("browsertest: this test needs a browser: install it (Debian: apt-get install chromium-headless-shell)")
}

// Start starts a Chromium that stops with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	chromium, err := find()
	if err != nil {
		t.Fatal(err)
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium),
		chromedp.NoSandbox, // the tests may run as root, in a container
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		// Each window of the whole Chromium would load two pages for the address bar, which take as
		// much CPU time as the page under test. The first two are chromedp's own.
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees,WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup"),
	)
	process, kill := chromedp.NewExecAllocator(context.Background(), flags...)
	ctx, stop := chromedp.NewContext(process)
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if err := chromedp.Cancel(closing); err != nil {
			t.Logf("browsertest: close: %v", err)
		}
		stop()
		kill()
	})
	// A deadline of ctx itself would stop the browser later, so a timer stops a late start.
	late := time.AfterFunc(startTimeout, stop)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("browsertest: start %s: %v", chromium, err)
	}
	late.Stop()
	return &Browser{ctx}
}
