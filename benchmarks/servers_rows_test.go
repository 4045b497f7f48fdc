package benchmarks

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/tidwall/redcon"
	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// takeAnswer is the response of HTTP servers that decide nothing, as long as that of a take.
const takeAnswer = `{"ok":true,"limit":"1000000/s burst 1000000","capacity":1000000,"granted":1,"remaining":999999,"retry_after":0,"reset_after":0.000001,"at":"2026-11-23T00:00:00.000000Z"}` + "\n"

// A constant answers every request with one descriptor, or any number, alike.
type constant struct {
	rlspb.UnimplementedRateLimitServiceServer
}

func (constant) ShouldRateLimit(_ context.Context, r *rlspb.RateLimitRequest) (*rlspb.RateLimitResponse, error) {
	answer := &rlspb.RateLimitResponse{OverallCode: rlspb.RateLimitResponse_OK}
	for range r.Descriptors {
		answer.Statuses = append(answer.Statuses, &rlspb.RateLimitResponse_DescriptorStatus{Code: rlspb.RateLimitResponse_OK})
	}
	return answer, nil
}

// smallServers are servers in a process of this test program, by name. They serve at an address
// until the process ends; the upstream is for proxies.
var smallServers = map[string]func(addr, upstream string) error{
	"grpc": func(addr, _ string) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		rlspb.RegisterRateLimitServiceServer(s, constant{})
		return s.Serve(l)
	},
	"redcon": func(addr, _ string) error {
		return redcon.ListenAndServe(addr, func(c redcon.Conn, _ redcon.Command) {
			c.WriteArray(5)
			for _, n := range []int{0, 1_000_001, 1_000_000, -1, 1} {
				c.WriteInt(n)
			}
		}, nil, nil)
	},
	"net/http": func(addr, _ string) error {
		return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, takeAnswer)
		}))
	},
	"fasthttp": func(addr, _ string) error {
		return fasthttp.ListenAndServe(addr, func(c *fasthttp.RequestCtx) {
			c.SetContentType("application/json")
			c.WriteString(takeAnswer)
		})
	},
	"httputil": func(addr, upstream string) error {
		target, err := url.Parse("http://" + upstream)
		if err != nil {
			return err
		}
		limit := proxyLimit()
		proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.SetXForwarded() }}
		return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !limit(r.URL.Path) {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
	},
	"fasthttp proxy": func(addr, upstream string) error {
		limit := proxyLimit()
		client := &fasthttp.HostClient{Addr: upstream, MaxConns: 256}
		return fasthttp.ListenAndServe(addr, func(c *fasthttp.RequestCtx) {
			if !limit(string(c.Path())) {
				c.SetStatusCode(fasthttp.StatusTooManyRequests)
				return
			}
			c.Request.Header.Del("Connection")
			if err := client.Do(&c.Request, &c.Response); err != nil {
				c.SetStatusCode(fasthttp.StatusBadGateway)
			}
		})
	},
}

// proxyLimit returns the decision of a proxy: x/time/rate, which denies /denied.
func proxyLimit() func(path string) bool {
	wide, narrow := rate.NewLimiter(1e8, 1<<30), rate.NewLimiter(rate.Every(24*time.Hour), 1)
	return func(path string) bool {
		if path == "/denied" {
			return narrow.Allow()
		}
		return wide.Allow()
	}
}

// runServer serves a small server, for the process of another one.
func runServer(t *testing.T, text string) {
	parts := strings.Split(text, "=")
	if len(parts) != 3 || smallServers[parts[0]] == nil {
		t.Fatalf("-peers.server: got %q, want NAME=ADDRESS=UPSTREAM", text)
	}
	t.Fatal(smallServers[parts[0]](parts[1], parts[2]))
}

// A server is a process with an address.
type server struct {
	addr string
	pid  int
}

// startProgram starts a program and waits until it accepts connections at an address.
func startProgram(t testing.TB, addr string, cmd *exec.Cmd) server {
	t.Helper()
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
	})
	for deadline := time.After(30 * time.Second); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
			return server{addr, cmd.Process.Pid}
		}
		select {
		case <-ended:
			t.Fatalf("%s ended: %.200s", filepath.Base(cmd.Path), log)
		case <-deadline:
			t.Fatalf("%s does not accept connections: %v", filepath.Base(cmd.Path), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startSmall starts a small server.
func startSmall(t testing.TB, name, upstream string) server {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr := porttest.Address(t)
	return startProgram(t, addr, exec.Command(program, "-test.run=^TestPeers$", "-peers.server="+name+"="+addr+"="+upstream))
}

// serveWeir starts weir serve with one listener, such as grpc, and a policy file.
func serveWeir(t testing.TB, listener, file string, args ...string) server {
	t.Helper()
	path := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := porttest.Address(t)
	all := []string{"serve", path, "--deadline", "5s"}
	for _, l := range []string{"gateway", "http", "grpc", "resp", "admin"} {
		if l == listener {
			all = append(all, "--listen-"+l, addr)
		} else {
			all = append(all, "--listen-"+l, "off")
		}
	}
	return startProgram(t, addr, exec.Command(programtest.Weir(t), append(all, args...)...))
}

// A serverPeer is a program of another module, which is built outside of this tree because it
// needs hundreds of modules.
type serverPeer struct{ name, module, version, pkg string }

var serverPeers = []serverPeer{
	{"envoyratelimit", "github.com/envoyproxy/ratelimit", "v1.4.1-0.20260122083618-3fb702589d36", "github.com/envoyproxy/ratelimit/src/service_cmd"},
	{"gubernator", "github.com/mailgun/gubernator/v2", "v2.4.0", "github.com/mailgun/gubernator/v2/cmd/gubernator"}, // the newest that the module proxy serves
}

// build returns the path of the program in .bin of the tree. The first time, it compiles it for
// some minutes.
func (p serverPeer) build(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs("../.bin/peers")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, p.name+"-"+p.version)
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	module := t.TempDir()
	text := fmt.Sprintf("module build\n\ngo 1.26.0\n\nrequire %s %s\n", p.module, p.version)
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-mod=mod", "-o", binary, p.pkg)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s@%s: %v: %.300s", p.pkg, p.version, err, out[max(0, len(out)-300):])
	}
	return binary
}
