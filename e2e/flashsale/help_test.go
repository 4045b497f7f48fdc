package flashsale_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
)

// long reports whether the tests run at full counts.
func long() bool { return os.Getenv("FLASHSALE_LONG") == "1" }

// count returns few, or full at full counts.
func count(few, full int) int {
	if long() {
		return full
	}
	return few
}

// within returns the maximum of a time that is measured at full counts. A short run may share a
// busy machine with others.
func within(d time.Duration) time.Duration {
	if long() {
		return d
	}
	return max(d, 30*time.Second)
}

// until waits until an instant, and reports whether it was reached.
func until(ctx context.Context, at time.Time) bool {
	wait := time.NewTimer(time.Until(at))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wait.C:
		return true
	}
}

// expose creates a sale and exposes it.
func expose(t *testing.T, m sale.MerchantService, merchant string, d sale.Draft) sale.Sale {
	t.Helper()
	s, err := m.Create(t.Context(), merchant, "", d)
	if err == nil {
		s, err = m.Expose(t.Context(), merchant, s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lenientLayers returns the default policy file with high limits.
func lenientLayers() []byte {
	return []byte(strings.NewReplacer("20/s burst 40", "10000/s", "500/s burst 1000", "100000/s", "2/s burst 5", "1000/s").Replace(string(layers.Default())))
}

// lenientLayersFile writes the file of lenientLayers.
func lenientLayersFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layers.yaml")
	if err := os.WriteFile(file, lenientLayers(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// database returns the database of a configuration.
func database(c run.Config) string {
	if c.Embedded() {
		return filepath.Join(c.Data, "flashsale.db")
	}
	return c.Database
}

// table returns an auditor's report as text.
func table(r *auditor.Report) string {
	var text strings.Builder
	r.WriteTo(&text)
	return text.String()
}

// openAuditor opens an auditor whose bounds on time hold on a busy machine too.
func openAuditor(t testing.TB, c auditor.Config) *auditor.Auditor {
	t.Helper()
	c.AnswerWithin, c.StableWithin = within(time.Second), within(15*time.Second)
	a, err := auditor.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}
