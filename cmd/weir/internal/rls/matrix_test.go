package rls_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var update = flag.Bool("update", false, "rewrite the stories with what is answered")

// TestMatrix plays every story of testdata/matrix, once over gRPC and once as POST
// /json. A story is a configuration and then requests, each with the answer expected:
//
//	clock 2026-01-01T00:00:05Z            the store's clock from now on
//	clock +10s
//	server shadow quota headers metadata labels   options of the server, first of all
//	reload                                puts the part of the file named next into force
//	key=value k=v + key=other hits=5      a request: entries, and + between descriptors
//	9 times key=value                     the answer is that of the last
//
// Beside entries, a request has domain=, and hits=; a descriptor has @hits=, @refund
// and @limit=10/MINUTE. A value may be in double quotes.
func TestMatrix(t *testing.T) {
	files, err := filepath.Glob("testdata/matrix/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("stories = %v, %v", files, err)
	}
	requests := 0
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got, n := play(t, string(text), overGRPC)
			requests += n
			if *update {
				if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(text) {
				t.Errorf("over gRPC, %s", difference(string(text), got))
			}
			if again, _ := play(t, string(text), overJSON); again != got {
				t.Errorf("as JSON, %s", difference(got, again))
			}
		})
	}
	t.Logf("%d stories, %d lines of requests, over gRPC and as JSON", len(files), requests)
	if requests < 100 {
		t.Errorf("%d lines of requests, want at least 100", requests)
	}
}

func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf("line %d:\nwant %s\ngot  %s\nall:\n%s", i+1, w[i], g[min(i, len(g)-1)], got)
		}
	}
	return "there is more:\n" + got
}

// A caller sends requests to a server.
type caller func(*pb.RateLimitRequest) (*pb.RateLimitResponse, error)

// play plays a story. It returns the story with the actual responses, and their number.
func play(t *testing.T, text string, open func(*testing.T, *rls.Server) caller) (string, int) {
	var now atomic.Int64
	now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	store, err := memstore.New(memstore.Config{Clock: now.Load})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	head, rest, ok := strings.Cut(text, "-- config.yaml --\n")
	if !ok {
		t.Fatal("a story without -- config.yaml --")
	}
	config, story, _ := strings.Cut(rest, "-- story --\n")
	parts := strings.Split(story, "-- config.yaml --\n")
	limits := func(text string) *ratelimit.Config {
		c, err := ratelimit.Parse("config.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var events []rls.Event
	c := rls.Config{
		Store: store, Limits: limits(config), Now: func() time.Time { return time.UnixMicro(now.Load()) },
		Observe: func(e rls.Event) { events = append(events, e) },
		Log:     slog.New(slog.DiscardHandler),
	}
	options := regexp.MustCompile(`(?m)^server (.*)$`).FindStringSubmatch(story)
	labels := false
	if options != nil {
		words := strings.Fields(options[1])
		c.Shadow, c.Quota = slices.Contains(words, "shadow"), slices.Contains(words, "quota")
		c.ResponseHeaders, c.DynamicMetadata = slices.Contains(words, "headers"), slices.Contains(words, "metadata")
		labels = slices.Contains(words, "labels")
	}
	s, err := rls.New(c)
	if err != nil {
		t.Fatal(err)
	}
	call, domain := open(t, s), limits(config).Domains()[0].Name
	var out strings.Builder
	out.WriteString(head + "-- config.yaml --\n" + config + "-- story --\n")
	n := 0
	for i, part := range parts {
		if i > 0 {
			config, next, _ := strings.Cut(part, "-- story --\n")
			s.Use(limits(config))
			out.WriteString("-- config.yaml --\n" + config + "-- story --\n")
			part = next
		}
		for line := range strings.Lines(part) {
			trimmed := strings.TrimSpace(line)
			if strings.HasPrefix(line, "  ") {
				continue // an answer
			}
			out.WriteString(line)
			switch word, arg, _ := strings.Cut(trimmed, " "); {
			case trimmed == "" || strings.HasPrefix(line, "#") || word == "server":
				continue
			case word == "clock":
				set(t, &now, arg)
				continue
			}
			times, request := 1, trimmed
			if m := regexp.MustCompile(`^(\d+) times (.*)`).FindStringSubmatch(trimmed); m != nil {
				times, _ = strconv.Atoi(m[1])
				request = m[2]
			}
			r := parseRequest(t, domain, request)
			var response *pb.RateLimitResponse
			var err error
			for range times {
				events = nil
				response, err = call(r)
			}
			n++
			out.WriteString(render(response, err))
			for _, e := range events {
				if labels {
					fmt.Fprintf(&out, "  label %s.%s\n", e.Domain, e.Label)
				}
			}
		}
	}
	return out.String(), n
}

func set(t *testing.T, now *atomic.Int64, arg string) {
	if d, err := time.ParseDuration(arg); err == nil {
		now.Add(d.Microseconds())
		return
	}
	at, err := time.Parse(time.RFC3339Nano, arg)
	if err != nil {
		t.Fatal(err)
	}
	now.Store(at.UnixMicro())
}

var words = regexp.MustCompile(`(?:[^\s"]|"[^"]*")+`)

// parseRequest parses a line of a story.
func parseRequest(t *testing.T, domain, line string) *pb.RateLimitRequest {
	r := &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{{}}}
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, w := range words.FindAllString(line, -1) {
		k, v, _ := strings.Cut(w, "=")
		v = strings.Trim(v, `"`)
		d := r.Descriptors[len(r.Descriptors)-1]
		switch k {
		case "+":
			r.Descriptors = append(r.Descriptors, &common.RateLimitDescriptor{})
		case "none":
			r.Descriptors = nil
			return r
		case "domain":
			r.Domain = v
		case "hits":
			r.HitsAddend = uint32(number(v))
		case "@hits":
			d.HitsAddend = wrapperspb.UInt64(number(v))
		case "@refund":
			d.IsNegativeHits = true
		case "@limit":
			count, unit, _ := strings.Cut(v, "/")
			u, ok := typepb.RateLimitUnit_value[unit]
			if !ok {
				t.Fatalf("unit %q", unit)
			}
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(number(count)), Unit: typepb.RateLimitUnit(u)}
		default:
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: k, Value: v})
		}
	}
	return r
}

// render formats a response as in a story.
func render(r *pb.RateLimitResponse, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "  error %s: %s\n", status.Code(err), status.Convert(err).Message())
		return b.String()
	}
	fmt.Fprintf(&b, "  %s\n", r.GetOverallCode())
	for _, s := range r.GetStatuses() {
		fmt.Fprintf(&b, "    %s", s.GetCode())
		if c := s.GetCurrentLimit(); c != nil {
			unit := c.GetUnit().String()
			if m := c.GetUnitMultiplier(); m != nil {
				unit = fmt.Sprintf("%d %s", m.GetValue(), unit)
			}
			fmt.Fprintf(&b, " %d left of %d per %s, reset %ds", s.GetLimitRemaining(), c.GetRequestsPerUnit(), unit, s.GetDurationUntilReset().GetSeconds())
			if c.GetName() != "" {
				fmt.Fprintf(&b, ", %s", c.GetName())
			}
		} else if n := s.GetLimitRemaining(); n != 0 {
			fmt.Fprintf(&b, " %d left of no limit", n)
		}
		b.WriteString("\n")
	}
	for _, h := range r.GetResponseHeadersToAdd() {
		fmt.Fprintf(&b, "  %s: %s\n", h.GetKey(), h.GetValue())
	}
	if m := r.GetDynamicMetadata(); m != nil {
		text, _ := json.Marshal(m.AsMap())
		fmt.Fprintf(&b, "  metadata %s\n", text)
	}
	return b.String()
}

// serve runs a gRPC server on loopback for as long as the test lasts.
func serve(t *testing.T, s *rls.Server, c rls.ServerConfig) (*rls.GRPCServer, string) {
	t.Helper()
	g := rls.NewServer(c)
	if s != nil {
		s.Register(g)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown() = %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	})
	return g, l.Addr().String()
}

func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(options) == 0 {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func overGRPC(t *testing.T, s *rls.Server) caller {
	_, addr := serve(t, s, rls.ServerConfig{})
	client := pb.NewRateLimitServiceClient(dial(t, addr))
	return func(r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
		return client.ShouldRateLimit(context.Background(), r)
	}
}

func overJSON(t *testing.T, s *rls.Server) caller {
	server := httptest.NewServer(s.JSON())
	t.Cleanup(server.Close)
	return func(r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
		body, err := protojson.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := http.Post(server.URL+"/json", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got.StatusCode == http.StatusBadRequest { // what gRPC says as a code
			return nil, status.Error(3, strings.TrimSpace(string(text)))
		}
		var response pb.RateLimitResponse
		if err := protojson.Unmarshal(text, &response); err != nil {
			t.Fatalf("status %d, %v: %s", got.StatusCode, err, text)
		}
		if want := map[pb.RateLimitResponse_Code]int{1: 200, 2: 429}[response.GetOverallCode()]; got.StatusCode != want {
			t.Errorf("status %d of %s, want %d", got.StatusCode, response.GetOverallCode(), want)
		}
		return &response, nil
	}
}
