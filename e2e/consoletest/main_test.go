package consoletest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/consoletest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/internal/porttest"
)

// serve starts the program with its flags, and returns the address of the admin interface.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	address := porttest.Address(t)
	var log bytes.Buffer
	cmd := exec.Command(programtest.Weir(t), append([]string{"serve", "--listen-admin", address, "--listen-grpc", "off", "--listen-resp", "off"}, flags...)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have stopped
		if err := <-ended; err != nil {
			t.Errorf("weir serve: %v\n%s", err, log.String())
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("weir serve ended: %v", err)
		case <-deadline:
			t.Fatal("weir serve is not ready")
		case <-tick.C:
			r, err := http.Get("http://" + address + "/readyz")
			if err != nil {
				continue
			}
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return address
			}
		}
	}
}

// A test is one of a suite.
type test struct {
	name string
	run  func(*testing.T)
}

// TestConsole looks at pages and uses them. TestConsoleTasks, beside it, has a browser of its own.
func TestConsole(t *testing.T) {
	t.Parallel()
	s := start(t)
	runOne(t, []test{
		{"Pages", s.testPages},
		{"States", s.testStates},
		{"Stream", s.testStream},
		{"LanguageAndTheme", s.testLanguageAndTheme},
		{"Key", s.testKey},
		{"Try", s.testTry},
		{"Edit", s.testEdit},
		{"SignIn", s.testSignIn},
		{"Keyboard", s.testKeyboard},
		{"Pictures", s.testPictures},
	})
}

// TestConsoleTasks does whole tasks, some with real programs.
func TestConsoleTasks(t *testing.T) {
	t.Parallel()
	s := start(t)
	runOne(t, []test{
		{"Tasks", s.testTasks},
		{"Program", s.testProgram},
		{"Functions", s.testFunctions},
	})
}

// runOne runs tests with one browser, one after the other: a page in the background draws
// nothing.
func runOne(t *testing.T, tests []test) {
	for _, test := range tests {
		t.Run(test.name, test.run)
	}
}

// A suite is one browser, and one program that serves the files of the console to all fakes.
type suite struct {
	browser *browsertest.Browser
	pages   http.Handler
}

func start(t *testing.T) *suite {
	t.Helper()
	u := &url.URL{Scheme: "http", Host: serve(t, "--listen-gateway", "off", "--listen-http", porttest.Address(t))}
	return &suite{browsertest.Start(t), &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Host = r.In.Host // modules have an Origin
	}}}
}

// open opens a page of the console over a fake of its own. It checks at the end of the test
// that the page had no errors and asked no other host.
func (s *suite) open(t *testing.T, page string, o consoletest.Options, d browsertest.Device) (*consoletest.Fake, *browsertest.Page) {
	t.Helper()
	fake := consoletest.New(o, s.pages)
	server := httptest.NewServer(fake)
	t.Cleanup(func() {
		server.CloseClientConnections() // event streams
		server.Close()
	})
	p := s.browser.Page(t, t.Name(), d)
	// Cleanups run in reverse order: this one while the page is open.
	t.Cleanup(func() {
		ownHost(t, page, p)
		for _, e := range p.Errors() {
			t.Errorf("%s: %s", page, e)
		}
	})
	p.Open(server.URL + "/console/" + page)
	return fake, p
}

// ownHost fails if the document shown has asked another host.
func ownHost(t *testing.T, page string, p *browsertest.Page) {
	t.Helper()
	if foreign := p.Text(`performance.getEntriesByType("resource").map((e) => e.name).filter((n) => !n.startsWith(location.origin + "/") && !n.startsWith("blob:")).join()`); foreign != "" {
		t.Errorf("%s: requests to other hosts: %s", page, foreign)
	}
}

var axe = sync.OnceValue(func() string {
	f, err := os.Open("testdata/axe-core-4.14.1.min.js.gz")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// accessible fails for each serious or critical finding of axe-core.
func accessible(t *testing.T, p *browsertest.Page) {
	t.Helper()
	p.Do(axe())
	// Text takes an expression, and axe runs for long only on the largest pages.
	findings := p.Text(`axe.run(document, { resultTypes: ["violations"] }).then((r) => JSON.stringify(r.violations
		.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => v.id + " (" + v.impact + "): " + v.nodes.slice(0, 3).map((n) => n.html + " " + n.failureSummary).join(" | "))))`)
	var list []string
	if err := json.Unmarshal([]byte(findings), &list); err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		t.Errorf("axe: %s", f)
	}
}

// fits fails if the page is wider than its window.
func fits(t *testing.T, p *browsertest.Page) {
	t.Helper()
	if p.Text(`document.documentElement.scrollWidth <= innerWidth`) != "true" {
		t.Errorf("the page is wider than the window: %s", p.Text(`[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" | ")`))
	}
}

// live waits until a page of the console shows live data: nothing moves any more.
func live(p *browsertest.Page, page string) {
	p.Await(fmt.Sprintf(`location.pathname === "/console/%s" && document.querySelector(".tools .live")?.textContent === "Live"`, page))
}

// button returns the selector of the nth button (from 1) of a section.
func button(section string, n int) string {
	return fmt.Sprintf("%s button:nth-of-type(%d)", section, n)
}

func contains(list []string, one string) bool { return strings.Contains(strings.Join(list, "\n"), one) }
