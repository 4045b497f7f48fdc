package redisstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]redisstore.Address{
		"redis://localhost":               {Topology: redisstore.Standalone, Hosts: []string{"localhost:6379"}},
		"redis://127.0.0.1:7000/3":        {Topology: redisstore.Standalone, Hosts: []string{"127.0.0.1:7000"}, DB: 3},
		"redis://[::1]:7000":              {Topology: redisstore.Standalone, Hosts: []string{"[::1]:7000"}},
		"redis://[::1]":                   {Topology: redisstore.Standalone, Hosts: []string{"[::1]:6379"}},
		"redis://:pw@h:1":                 {Topology: redisstore.Standalone, Hosts: []string{"h:1"}, Password: "pw"},
		"redis://u%40x:p%3A%2F%3F@h:1/0":  {Topology: redisstore.Standalone, Hosts: []string{"h:1"}, Username: "u@x", Password: "p:/?"},
		"redis+cluster://a:7000,b:7001,c": {Topology: redisstore.Cluster, Hosts: []string{"a:7000", "b:7001", "c:6379"}},
		"redis+cluster://u:p@a,b/":        {Topology: redisstore.Cluster, Hosts: []string{"a:6379", "b:6379"}, Username: "u", Password: "p"},
		"redis+sentinel://a,b:1/my%2Fm/2?sentinel_user=s&sentinel_password=x": {
			Topology: redisstore.Sentinel, Hosts: []string{"a:26379", "b:1"}, Primary: "my/m", DB: 2, SentinelUsername: "s", SentinelPassword: "x",
		},
	} {
		got, err := redisstore.ParseURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseURL(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p w\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := redisstore.ParseURL("redis+sentinel://u@h/m?password_file=" + file + "&sentinel_password_file=" + file)
	if err != nil || fromFile.Username != "u" || fromFile.Password != "p w" || fromFile.SentinelPassword != "p w" {
		t.Errorf("ParseURL with files of passwords = %+v, %v", fromFile, err)
	}
	a, err := redisstore.ParseURL("rediss+cluster://a,b?server_name=redis.example&skip_verify=true")
	if err != nil || a.TLS == nil || a.TLS.ServerName != "redis.example" || !a.TLS.InsecureSkipVerify {
		t.Errorf("ParseURL with TLS = %+v, %v", a, err)
	}
}

func TestParseURLRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                   "redis://",
		"localhost:6379":                     "redis://",
		"http://h":                           "scheme",
		"redis+ring://a,b":                   "+sentinel or +cluster",
		"redis://":                           "host",
		"redis://a,b":                        "2 hosts",
		"redis://h:0":                        "1 to 65535",
		"redis://h:70000":                    "1 to 65535",
		"redis://h:port":                     "1 to 65535",
		"redis://h/x":                        "number",
		"redis://h/-1":                       "number",
		"redis+cluster://h/1":                "only database 0",
		"redis+sentinel://h":                 "primary",
		"redis+sentinel://h/m/x":             "number",
		"redis://secret%zz@h":                "percent",
		"redis://u:secret@h/x":               "number",
		"redis://h?timeout=1s":               "timeout",
		"redis://h?ca=x":                     "rediss",
		"redis://h?sentinel_user=x":          "sentinel",
		"redis://h?%zz":                      "percent",
		"rediss://h?skip_verify=maybe":       "true or false",
		"rediss://h?ca=/nonexistent/ca.pem":  "ca",
		"rediss://h?ca=url_test.go":          "no certificate",
		"rediss://h?cert=x":                  "both",
		"rediss://h?cert=/nonexistent&key=x": "cert and key",

		"redis://h?password_file=/nonexistent":                                             "no such file",
		"redis://h?password_file=url_test.go":                                              "one line",
		"redis://h?password_file=" + os.DevNull:                                            "one line",
		"redis://:secret@h?password_file=../go.work":                                       "no other password",
		"redis://h?sentinel_password_file=../LICENSE":                                      "only redis+sentinel",
		"redis+sentinel://h/m?sentinel_password=secret&sentinel_password_file=url_test.go": "one",
	} {
		a, err := redisstore.ParseURL(text)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(fmt.Sprint(err), says) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("ParseURL(%q) = %+v, %v, want an error that wraps ErrInvalid and says %q", text, a, err, says)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2", "redis+sentinel://a,b/m?sentinel_user=x", "rediss+cluster://[::1]:2,c?skip_verify=1", "redis://@,@/?&="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "ca=") || strings.Contains(s, "cert=") || strings.Contains(s, "_file=") {
			return // reads files
		}
		a, err := redisstore.ParseURL(s)
		if err != nil {
			if !errors.Is(err, weir.ErrInvalid) {
				t.Fatalf("ParseURL(%q) = error %v, want one that wraps ErrInvalid", s, err)
			}
			return
		}
		if len(a.Hosts) == 0 || a.DB < 0 || (a.Topology == redisstore.Sentinel) != (a.Primary != "") {
			t.Fatalf("ParseURL(%q) = %+v", s, a)
		}
	})
}

func TestConfig(t *testing.T) {
	clock := func() int64 { return 1 }
	for _, c := range []redisstore.Config{
		{}, {Prefix: "my-app:limits"}, {Clock: clock, Skew: 5}, {InFlight: 1024, MaxBatch: 1024, Timeout: 1e6},
	} {
		if _, err := redisstore.New(&fakeConn{}, c); err != nil {
			t.Errorf("New(%+v) = error %v", c, err)
		}
	}
	for field, c := range map[string]redisstore.Config{
		"Prefix":   {Prefix: "a{b}"},
		"Timeout":  {Timeout: 1},
		"InFlight": {InFlight: -1},
		"MaxBatch": {MaxBatch: 5000},
		"Skew":     {Skew: 1},
	} {
		if _, err := redisstore.New(&fakeConn{}, c); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("New(%+v) = error %v, want one that wraps ErrInvalid and names %s", c, err, field)
		}
	}
	if _, err := redisstore.New(&fakeConn{}, redisstore.Config{Prefix: strings.Repeat("x", 33)}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New with a prefix of 33 bytes = error %v, want ErrInvalid", err)
	}
	for _, conn := range []redisstore.Conn{nil, (*fakeConn)(nil)} {
		if _, err := redisstore.New(conn, redisstore.Config{}); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("New(%T(nil)) = error %v, want ErrInvalid", conn, err)
		}
	}
	s := newStore(t, &fakeConn{}, redisstore.Config{Clock: func() int64 { return 0 }})
	if _, err := s.Do(t.Context(), take("k", 1)); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Do with a clock at 0 = error %v, want ErrInvalid", err)
	}
}
