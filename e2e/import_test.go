package e2e_test

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// shop is the sample nginx.conf of the importer's tests.
const shop = "../cmd/weir/internal/importer/testdata/nginx/shop"

// copyShop copies the sample and applies edit to every file.
func copyShop(t *testing.T, edit func(text string) string) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(shop, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, shop))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(edit(string(data))), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImportSampleIsReal checks that a real nginx accepts the sample.
func TestImportSampleIsReal(t *testing.T) {
	dir := copyShop(t, func(text string) string { return text })
	out, err := exec.Command("nginx", "-t", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", filepath.Join(dir, "nginx.conf")).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("this test needs a real nginx: install it (Debian: apt-get install nginx-light)")
	}
	if err != nil {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
}

var limitReq = regexp.MustCompile(`(?m)^\s*limit_req\s+zone=(\w+)[^;]*;`)

// TestImportAgreesWithNginx compares which limits apply to a request in a real nginx and in
// the policy file imported from its configuration. nginx reports them in a header that is set
// beside every limit_req and is inherited like it.
func TestImportAgreesWithNginx(t *testing.T) {
	t.Parallel()
	port := strconv.Itoa(porttest.Free(t))
	other := strconv.Itoa(porttest.Free(t))
	dir := copyShop(t, func(text string) string {
		text = strings.NewReplacer("127.0.0.1:8083", "127.0.0.1:"+port, "127.0.0.1:8081", "127.0.0.1:"+other, "6r/m", "6000r/m").Replace(text) // or requests are delayed
		return limitReq.ReplaceAllString(text, "$0 add_header X-Limit $1 always;")
	})
	conf := filepath.Join(dir, "nginx.conf")
	startProcess(t, "nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", conf, "-g", "daemon off;")
	awaitStatus(t, "http://127.0.0.1:"+port+"/healthz", http.StatusOK)

	binary, made := programtest.Weir(t), filepath.Join(t.TempDir(), "made.yaml")
	out, err := exec.Command(binary, "import", "nginx", conf, "-o", made).CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 3 {
		t.Fatalf("weir import = %v, want 3, as something is listed\n%s", err, out)
	}
	if out, err := exec.Command(binary, "check", made).CombinedOutput(); err != nil {
		t.Fatalf("weir check: %v\n%s", err, out)
	}
	api, admin := porttest.Address(t), porttest.Address(t)
	startProcess(t, binary, "serve", made, "--listen-gateway", "off", "--listen-http", api, "--listen-admin", admin)
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	asked := 0
	for _, host := range []string{"shop.example", "www.shop.example", "api.example", "eu.api.example", "unknown.example"} {
		for _, path := range []string{
			"/", "/x", "/static/a.css", "/static/deep/b.png", "/login", "/login/x", "/loginx", "/cart", "/cart/1", "/carts", "/cart/x.php",
			"/index.php", "/x/y.cgi", "/x.phpx", "/v1/", "/v1/orders", "/v1/search", "/v1/search/all", "/v1/searches", "/v2/search",
		} {
			want, got := nginxLimits(t, port, host, path), weirLimits(t, admin, host, path)
			if asked++; !slices.Equal(got, want) {
				t.Errorf("%s%s: nginx has the limits %v, the policy file %v", host, path, want, got)
			}
		}
	}
	t.Logf("%d requests fall under the same limits", asked)
}

// nginxLimits returns the zones of the limits that nginx applied.
func nginxLimits(t *testing.T, port, host, path string) []string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("X-Api-Key", "k")
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, res.Body)
	return sorted(res.Header.Values("X-Limit"))
}

var numbered = regexp.MustCompile(`-\d+$`)

// weirLimits returns the zones of the policies that match a request, except those of
// limit_conn.
func weirLimits(t *testing.T, admin, host, path string) []string {
	t.Helper()
	q := url.Values{"host": {host}, "path": {path}, "header": {"X-Api-Key:k"}, "client_ip": {"127.0.0.1"}}
	res, err := http.Get("http://" + admin + "/v1/explain?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Policies []struct {
			Name    string `json:"policy"`
			Matched bool   `json:"matched"`
		} `json:"policies"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Policies) == 0 {
		t.Fatalf("/v1/explain says %s (%v)", out, err)
	}
	var zones []string
	for _, p := range answer.Policies {
		if zone := numbered.ReplaceAllString(p.Name, ""); p.Matched && !strings.HasSuffix(zone, "conns") {
			zones = append(zones, zone)
		}
	}
	return sorted(zones)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
