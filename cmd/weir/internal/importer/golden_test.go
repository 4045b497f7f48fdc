package importer_test

import (
	"os"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
)

// TestGolden compares the results for the samples with the files in testdata/golden.
func TestGolden(t *testing.T) {
	for name, read := range map[string]func() (*importer.Result, error){
		"nginx.yaml": func() (*importer.Result, error) {
			return importer.Nginx("testdata/nginx/shop/nginx.conf", importer.Files{})
		},
		"sentinel.yaml": func() (*importer.Result, error) {
			data, err := os.ReadFile("testdata/sentinel/rules.json")
			if err != nil {
				return nil, err
			}
			return importer.Sentinel("testdata/sentinel/rules.json", data)
		},
		"envoy.yaml": func() (*importer.Result, error) { return importer.Envoy("testdata/envoy") },
	} {
		first, err := read()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		accepted(t, first)
		golden(t, name, first.Text)
		if again, err := read(); err != nil || again.Text != first.Text {
			t.Errorf("%s: the second result differs, %v", name, err)
		}
		if len(first.Listed) == 0 || first.Policies < 10 {
			t.Errorf("%s: %d policies, %d listed: want at least 10, and 1", name, first.Policies, len(first.Listed))
		}
	}
}
