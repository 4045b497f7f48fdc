package importer_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/importer"
)

// add adds files as seeds.
func add(f *testing.F, patterns ...string) {
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: %v, %v", p, names, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
}

// FuzzNginx checks that any text is refused or imported as a valid policy file.
func FuzzNginx(f *testing.F) {
	add(f, "testdata/nginx/shop/*.conf", "testdata/nginx/shop/*/*")
	f.Add([]byte("http {\n" + zones + "limit_req zone=a; limit_conn c 5; server { server_name ~x .y z.*; location ~* \"x{1}\" { limit_req zone=b burst=3 delay=2; } } server { } }"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := importer.Nginx("nginx.conf", files(map[string]string{"nginx.conf": string(data)}))
		if err == nil {
			accepted(t, r)
		}
	})
}

// FuzzSentinel checks the same for rules of Sentinel.
func FuzzSentinel(f *testing.F) {
	add(f, "testdata/sentinel/*")
	f.Add([]byte(`[{"resource": "/x\u0000\n", "count": 1e14, "paramIdx": 1, "paramFlowItemList": [{"object": "", "count": 1}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func(string, []byte) (*importer.Result, error){importer.Sentinel, importer.SentinelFunctions} {
			if r, err := read("rules.json", data); err == nil {
				accepted(t, r)
			}
		}
	})
}

// FuzzEnvoy checks the same for the configuration of envoyproxy/ratelimit.
func FuzzEnvoy(f *testing.F) {
	add(f, "testdata/envoy/*.yaml")
	path := filepath.Join(f.TempDir(), "d.yaml")
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := importer.Envoy(path)
		if err == nil {
			accepted(t, r)
		}
	})
}
