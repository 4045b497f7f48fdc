package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// TestImportedConnections compares the requests in progress that a real nginx admits with limit_conn, in
// one zone with several numbers, to those of the gateway with the imported policies.
func TestImportedConnections(t *testing.T) {
	t.Parallel()
	up := &holding{arrived: make(chan string, 1), release: map[string]chan struct{}{}}
	for i := range 20 {
		up.release[fmt.Sprint(i)] = make(chan struct{})
	}
	api := httptest.NewServer(up)
	t.Cleanup(api.Close)
	nginx, gateway, admin := porttest.Address(t), porttest.Address(t), porttest.Address(t)
	dir := t.TempDir()
	conf, made := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "made.yaml")
	text := fmt.Sprintf(`pid %s/nginx.pid;
events {}
http {
    access_log off;
    limit_conn_zone $binary_remote_addr zone=c:1m;
    limit_conn c 5;
    server {
        listen %s;
        location /ready { return 200; }
        location / { proxy_pass %[3]s; }
        location /x/ { limit_conn c 3; proxy_pass %[3]s; }
        location /y/ { limit_conn c 4; proxy_pass %[3]s; }
    }
}
`, dir, nginx, api.URL)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	startProcess(t, "nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", conf, "-g", "daemon off;")
	awaitStatus(t, "http://"+nginx+"/ready", http.StatusOK)

	binary := programtest.Weir(t)
	if out, err := exec.Command(binary, "import", "nginx", conf, "-o", made).CombinedOutput(); err != nil {
		t.Fatalf("weir import: %v\n%s", err, out)
	}
	policies, err := os.ReadFile(made)
	if err != nil || strings.Count(string(policies), "connections: ") != 3 {
		t.Fatalf("%v\n%s\nwant three limits of connections", err, policies)
	}
	policies = fmt.Appendf(policies, "gateway: { routes: [{ path: /, upstream: %q }] }\n", api.URL)
	if err := os.WriteFile(made, policies, 0o644); err != nil {
		t.Fatal(err)
	}
	startProcess(t, binary, "serve", made, "--listen-gateway", gateway, "--listen-http", "off", "--listen-admin", admin)
	awaitStatus(t, "http://"+admin+"/readyz", http.StatusOK)

	// Each step is a path of a request, or the number of one that ends.
	steps := strings.Fields("/x/ /x/ /x/ /x/ /y/ /y/ / / 0 /x/ / 1 2 /x/ /y/ 4 5 /x/ /x/ /")
	want, got := up.run(t, nginx, steps), up.run(t, gateway, steps)
	if want != got {
		t.Errorf("steps   %s\nnginx   %s\ngateway %s", strings.Join(steps, " "), want, got)
	}
	if !strings.Contains(want, "held held held 503 held 503 held 503") {
		t.Errorf("nginx: %s, want limits of 3, 4 and 5 for all requests together", want)
	}
}

// A holding is an upstream that holds requests.
type holding struct {
	arrived chan string
	release map[string]chan struct{} // by the number of a request
}

func (h *holding) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	n := r.Header.Get("N")
	h.arrived <- n
	<-h.release[n]
}

// run sends requests and ends them, one after another. It returns what becomes of each.
func (h *holding) run(t *testing.T, address string, steps []string) string {
	t.Helper()
	responses := make([]chan string, 0, len(steps))
	var open []int // requests at the upstream
	var all []string
	end := func(n int) {
		h.release[fmt.Sprint(n)] <- struct{}{}
		if status := <-responses[n]; status != "200" {
			t.Errorf("%s: request %d ends with status %s", address, n, status)
		}
	}
	for _, step := range steps {
		if !strings.HasPrefix(step, "/") {
			i := 0
			if _, err := fmt.Sscan(step, &i); err != nil {
				t.Fatal(err)
			}
			end(open[i])
			open[i] = -1
			continue
		}
		n := len(responses)
		responses = append(responses, make(chan string, 1))
		go func() { responses[n] <- untilClosed(address, step, n) }()
		select {
		case <-h.arrived:
			all, open = append(all, "held"), append(open, n)
		case status := <-responses[n]:
			all = append(all, status)
		}
	}
	for _, n := range open {
		if n >= 0 {
			end(n)
		}
	}
	return strings.Join(all, " ")
}

// untilClosed makes request n, and returns its status when the server has closed the connection. By then
// the request is no longer in progress; it may still be when its response arrives.
func untilClosed(address, path string, n int) string {
	answers, err := conversation(address, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nN: %d\r\nConnection: close\r\n\r\n", path, n))
	if err != nil || len(answers) != 1 {
		return fmt.Sprint("no response: ", err)
	}
	status, _, _ := strings.Cut(answers[0], " ")
	return status
}
