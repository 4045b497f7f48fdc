package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

func TestServerInfo(t *testing.T) {
	for _, c := range []struct {
		info            string
		clock           time.Duration
		server, version string
		warnings        int
		ok              bool
		more            string // mode, primary, eviction
	}{
		{info: "redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n", server: "redis", version: "7.0.15", ok: true, more: "  noeviction"},
		{info: "redis_version:7.0.15\r\nredis_mode:cluster\r\nrole:master\r\nmaster_host:a\r\n", server: "redis", version: "7.0.15", ok: true, more: "cluster  "},
		{info: "redis_version:7.0.15\r\nredis_mode:standalone\r\nmaster_host:::1\r\nmaster_port:6379\r\nrole:slave\r\n", server: "redis", version: "7.0.15", ok: true, more: "standalone [::1]:6379 "},
		{info: "redis_version:6.2.0\r\nmaxmemory:5\r\nmaxmemory_policy:allkeys-lru\r\n", server: "redis", version: "6.2.0", warnings: 1, ok: true},
		{info: "redis_version:6.2.0\r\nmaxmemory_policy:volatile-ttl\r\n", clock: -time.Minute, server: "redis", version: "6.2.0", warnings: 2, ok: true},
		{info: "redis_version:6.0.16\r\n", server: "redis", version: "6.0.16"},
		{info: "redis_version:10.0.1\r\n", server: "redis", version: "10.0.1", ok: true},
		{info: "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n", server: "valkey", version: "8.0.1", ok: true},
		{info: "server_name:valkey\r\nvalkey_version:8.0.1\r\nredis_version:7.2.4\r\n", server: "valkey", version: "8.0.1", ok: true},
		{info: "", server: "redis"},
		{info: "redis_version:seven\r\n", server: "redis", version: "seven"},
	} {
		f := ServerInfo{Server: "redis", clock: c.clock}
		f.read(c.info)
		err := f.check()
		if f.Server != c.server || f.Version != c.version || len(f.Warnings) != c.warnings || (err == nil) != c.ok || err != nil && !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("of %q: %+v, %v, want %s %s, %d warnings, OK %v", c.info, f, err, c.server, c.version, c.warnings, c.ok)
		}
		if more := f.Mode + " " + f.ReplicaOf + " " + f.Eviction; c.more != "" && more != c.more {
			t.Errorf("of %q: %q, want %q", c.info, more, c.more)
		}
	}
}
