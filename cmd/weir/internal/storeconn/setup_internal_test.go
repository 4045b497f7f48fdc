package storeconn

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/redisstore"
)

// TestExplain checks the texts of Redis 6.2 to 8 and of TLS.
func TestExplain(t *testing.T) {
	a := redisstore.Address{Topology: redisstore.Standalone, Username: "app", DB: 3}
	for text, want := range map[string]string{
		"WRONGPASS invalid username-password pair or user is disabled.": "refuses the password of the user app",
		"ERR invalid password":                                                            "refuses the password",
		"NOAUTH Authentication required.":                                                 "requires a password",
		"NOAUTH HELLO must be called with the client already authenticated":               "requires a password",
		"NOPERM this user has no permissions to run the 'evalsha' command":                "may not run EVALSHA",
		"NOPERM User app has no permissions to run the 'cluster|slots' command":           "may not run CLUSTER|SLOTS",
		"NOPERM User app has no permissions to run the 'select' command":                  "+select",
		"NOPERM No permissions to access a key":                                           "may not use keys that begin with weir:1:",
		"NOPERM this user has no permissions to access one of the keys used as arguments": "may not use keys",
		"NOPERM User keymaster has no permissions to run the 'hget' command":              "may not run HGET",
		"ERR DB index is out of range":                                                    "database 3 does not exist",
		"READONLY You can't write against a read only replica.":                           "read-only replica",
		"ERR This instance has cluster support disabled":                                  "use redis://",
		"DENIED Redis is running in protected mode because protected mode is enabled":     "protected mode",
		"received unknown message type: 72":                                               "is not Redis",
		"remote error: tls: certificate required":                                         "?cert=FILE&key=FILE",
	} {
		err := explain(fmt.Errorf("rueidis: %w: %w", weir.ErrUnavailable, redisstore.ServerError(text)), a)
		var wrong *setup.Error
		if !errors.As(err, &wrong) || !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), want) || wrong.Fix == "" {
			t.Errorf("explain(%q) = %v, want a setup.Error with %q", text, err, want)
		}
	}
	for _, text := range []string{"LOADING Redis is loading the dataset in memory", "dial tcp: connection refused", "OOM command not allowed", "MISCONF Redis is configured to save RDB snapshots"} {
		plain := redisstore.ServerError(text)
		if err := explain(plain, a); err != plain {
			t.Errorf("explain(%q) = %v, want it unchanged: it may pass", text, err)
		}
	}
}

func TestInfo(t *testing.T) {
	for want, info := range map[string]redisstore.ServerInfo{
		"": {Mode: "standalone", Eviction: "noeviction"},
		"maxmemory-policy is allkeys-lru, want noeviction": {Eviction: "allkeys-lru"},
		"maxmemory-policy is volatile-ttl":                 {Eviction: "volatile-ttl"},
		"redis+cluster://":                                 {Mode: "cluster"},
		"replica of a:6379":                                {ReplicaOf: "a:6379"},
	} {
		if err := checkInfo(info, false); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("checkInfo(%+v) = %v, want %q", info, err, want)
		}
	}
	if err := checkInfo(redisstore.ServerInfo{}, false); err != nil {
		t.Errorf("a service that hides its settings: %v", err)
	}
	if err := checkInfo(redisstore.ServerInfo{Mode: "cluster", ReplicaOf: "a:6379"}, true); err != nil {
		t.Errorf("a node of a cluster: %v; any node answers INFO", err)
	}
}

func TestAccess(t *testing.T) {
	a := redisstore.Address{Topology: redisstore.Standalone, Username: "app"}
	for want, failed := range map[string][]string{
		"": {"HSET", "ERR wrong number of arguments for 'hset' command"},
		"may not run GET, HSET": {"GET", "ERR The user executing the script can't run this command or subcommand script: x",
			"HSET", "NOPERM ACL failure in script: User app has no permissions to run the 'hset' command"},
		"may not use keys":  {"GET", "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: x"},
		"read-only replica": {"SET", "READONLY You can't write against a read only replica. script: x"},
	} {
		err := checkAccess(failed, a)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("checkAccess(%q) = %v, want %q", failed, err, want)
		}
	}
	if err := checkAccess([]string{"SET", "OOM command not allowed"}, a); !errors.Is(err, weir.ErrUnavailable) || errors.As(err, new(*setup.Error)) {
		t.Errorf("a full Redis: %v, want ErrUnavailable that is no setup.Error", err)
	}
}

// TestCommandsAreDocumented checks that the permissions are those of the documentation, and
// that the script tries each one.
func TestCommandsAreDocumented(t *testing.T) {
	for _, file := range []string{"../../../../docs/redis.md", "../../../../redisstore/doc.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line := regexp.MustCompile(`ACL SETUSER weir on .*-@all (.*)`).FindSubmatch(text)
		if line == nil {
			t.Fatalf("%s has no ACL line", file)
		}
		documented := strings.Fields(strings.ReplaceAll(string(line[1]), "'", ""))
		slices.Sort(documented)
		want := slices.Sorted(slices.Values(commands))
		if !slices.Equal(documented, want) {
			t.Errorf("%s has %v, want %v", file, documented, want)
		}
	}
	for _, c := range commands {
		name := strings.ToUpper(strings.TrimPrefix(c, "+"))
		if !strings.Contains(access, "'"+name+"'") && !slices.Contains([]string{"PING", "INFO", "EVAL", "EVALSHA", "CLUSTER|SLOTS", "CLUSTER|SHARDS", "ASKING"}, name) {
			t.Errorf("the script does not try %s", name)
		}
	}
}

func TestFiles(t *testing.T) {
	got := Files("rediss+sentinel://u@h/m?ca=a&cert=b&key=c&password_file=%2Fd&sentinel_password_file=e&server_name=f")
	if fmt.Sprint(got) != "[/d e a b c]" {
		t.Errorf("Files = %v", got)
	}
	if got := Files("redis://h"); got != nil {
		t.Errorf("Files of a URL without parameters = %v", got)
	}
}
