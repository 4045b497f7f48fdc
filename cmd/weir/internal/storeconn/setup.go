package storeconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/redisstore"
)

// commands are the permissions that the program needs, as in docs/redis.md. Those behind
// the comment are for clusters.
var commands = strings.Fields("+ping +info +evalsha +eval +time +get +mget +exists +set +del +pexpire +hget +hset +hdel " +
	"+zadd +zrem +zcount +zrange +zrangebyscore +zrevrangebyscore +zremrangebyscore " +
	/* cluster */ "+cluster|slots +cluster|shards +asking")

// keys is the pattern of all keys.
const keys = "~" + redisstore.DefaultPrefix + ":1:*"

// probeKey is a key that does not exist.
const probeKey = redisstore.DefaultPrefix + ":1:{probe}:access"

// access is a script that calls every command with arguments that change nothing. It
// returns the commands that fail, each followed by its error.
const access = `local failed = {}
local function try(name, ...)
  local reply = redis.pcall(name, KEYS[1], ...)
  if type(reply) == 'table' and reply.err then
    failed[#failed + 1] = name
    failed[#failed + 1] = reply.err
  end
end
local time = redis.pcall('TIME')
if time.err then failed = {'TIME', time.err} end
try('GET')
try('MGET')
try('EXISTS')
try('SET', '0', 'XX', 'PX', '1')
try('DEL')
try('PEXPIRE', '1')
try('HGET', '0')
try('HSET', '0', '0', '0')
try('HDEL', '0')
try('ZADD', 'XX', '0', '0')
try('ZREM', '0')
try('ZCOUNT', '0', '0')
try('ZRANGE', '0', '0')
try('ZRANGEBYSCORE', '0', '0')
try('ZREVRANGEBYSCORE', '0', '0')
try('ZREMRANGEBYSCORE', '0', '0')
return failed`

// inspect checks that the server and its account can keep limits. It writes nothing. A missing
// permission is reported with all others, and before the failure of Probe that it causes.
func inspect(ctx context.Context, store *redisstore.Store, conn redisstore.Conn, a redisstore.Address) (redisstore.ServerInfo, error) {
	info, failure := store.Probe(ctx)
	if info.Server == "" {
		return info, explain(failure, a)
	}
	if err := checkInfo(info, conn.Cluster()); err != nil {
		return info, err
	}
	within, cancel := context.WithTimeout(ctx, redisstore.DefaultTimeout)
	defer cancel()
	var replies [1]redisstore.Reply
	conn.Do(within, []redisstore.Command{{Head: []string{"EVAL", access, "1"}, Keys: []string{probeKey}}}, replies[:])
	if err := replies[0].Err; err != nil {
		return info, explain(fmt.Errorf("EVAL: %w: %w", weir.ErrUnavailable, err), a)
	}
	if err := checkAccess(replies[0].Items, a); err != nil {
		return info, err
	}
	return info, explain(failure, a)
}

// checkInfo checks the settings of the server.
func checkInfo(info redisstore.ServerInfo, cluster bool) error {
	switch {
	case info.Mode == "cluster" && !cluster:
		return setup.New("the server is a node of a Redis Cluster", "use redis+cluster:// (or rediss+cluster://) in the URL")
	case info.ReplicaOf != "" && !cluster:
		return replica("the server is a replica of " + info.ReplicaOf)
	}
	if p := info.Eviction; p != "" && p != "noeviction" {
		return setup.New(fmt.Sprintf("maxmemory-policy is %s, want noeviction: Redis would evict keys in use, which resets their limits", p),
			"run CONFIG SET maxmemory-policy noeviction, and write maxmemory-policy noeviction in redis.conf")
	}
	return nil
}

func replica(problem string) error {
	return setup.New(problem, "name the primary in the URL, or use redis+sentinel://SENTINEL:26379/PRIMARY, which follows a failover")
}

// checkAccess checks the reply of the access script.
func checkAccess(failed []string, a redisstore.Address) error {
	var denied []string
	key := false
	for i := 0; i+1 < len(failed); i += 2 {
		name, text := failed[i], failed[i+1]
		switch {
		case strings.Contains(strings.ToLower(text), "wrong number of arg"): // the command was permitted
		case deniedKey(text):
			key = true
		case deniedCommand(text):
			denied = append(denied, name)
		default:
			return explain(fmt.Errorf("%s: %w: %w", name, weir.ErrUnavailable, redisstore.ServerError(text)), a)
		}
	}
	switch {
	case len(denied) > 0:
		return permission(fmt.Sprintf("may not run %s", strings.Join(denied, ", ")), a)
	case key:
		return permission("may not use keys that begin with "+strings.Trim(keys, "~*"), a)
	}
	return nil
}

// deniedCommand reports whether an error of Redis 6.2 to 8 denies a command. The text
// differs in scripts.
func deniedCommand(text string) bool {
	return strings.Contains(text, "no permissions to run") || strings.Contains(text, "can't run this command")
}

// deniedKey reports whether such an error denies a key.
func deniedKey(text string) bool {
	return strings.Contains(text, "can't access") || strings.Contains(text, "o permissions to access")
}

// permission returns the error for a missing permission, with the command that grants all
// that are needed.
func permission(problem string, a redisstore.Address) error {
	all := slices.Clone(commands)
	if a.Topology != redisstore.Cluster {
		all = slices.DeleteFunc(all, func(c string) bool { return strings.HasPrefix(c, "+cluster") || c == "+asking" })
	}
	if a.DB != 0 {
		all = append(all, "+select")
	}
	return setup.New(fmt.Sprintf("the Redis user %s %s", user(a), problem),
		fmt.Sprintf("run ACL SETUSER %s '%s' %s", user(a), keys, strings.Join(all, " ")))
}

func user(a redisstore.Address) string {
	if a.Username == "" {
		return "default"
	}
	return a.Username
}

var quotedCommand = regexp.MustCompile(`'([a-zA-Z|]+)'`)

// explain returns a setup.Error for err if there is one to return, and err otherwise.
func explain(err error, a redisstore.Address) error {
	var known *setup.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	text := err.Error()
	has := func(s string) bool { return strings.Contains(text, s) }
	const secret = "correct the user and the password in the URL, or its password_file"
	switch {
	case has("WRONGPASS"), has("invalid username-password"), has("ERR invalid password"), has("called without any password configured"):
		return setup.New(fmt.Sprintf("Redis refuses the password of the user %s (WRONGPASS)", user(a)), secret)
	case has("NOAUTH"):
		return setup.New("Redis requires a password (NOAUTH)", "put a user and a password into the URL: redis://USER@HOST:PORT?password_file=FILE")
	case has("NOPERM") && deniedKey(text):
		return permission("may not use keys that begin with "+strings.Trim(keys, "~*")+" (NOPERM)", a)
	case has("NOPERM"):
		which := "a command"
		if m := quotedCommand.FindStringSubmatch(text[strings.Index(text, "NOPERM"):]); m != nil {
			which = strings.ToUpper(m[1])
		}
		return permission("may not run "+which+" (NOPERM)", a)
	case has("DB index is out of range"), has("invalid DB index"):
		return setup.New(fmt.Sprintf("database %d does not exist", a.DB), "use a lower number behind the / of the URL, or raise databases in redis.conf")
	case has("READONLY"):
		return replica("the server is a read-only replica")
	case has("cluster support disabled"):
		return setup.New("the server is not a node of a Redis Cluster", "use redis:// (or rediss://) in the URL")
	case has("DENIED Redis is running in protected mode"):
		return setup.New("Redis is in protected mode and accepts only connections from its own machine", "set a password in Redis (requirepass or an ACL user), or bind it to a private address")
	case has("received unknown message type"): // a byte that begins no reply
		return setup.New("the server at this port is not Redis", "name the port of Redis in the URL")
	case has("want 6.2 or later"):
		return setup.New(strings.TrimPrefix(text, "redisstore: "+weir.ErrUnavailable.Error()+": "), "upgrade the server")
	}
	return explainTLS(err, has)
}

// explainTLS returns a setup.Error for an error of a TLS handshake, and err otherwise.
func explainTLS(err error, has func(string) bool) error {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return setup.New("the certificate of Redis is signed by an unknown authority", "name the file of the authority: ?ca=FILE in the URL")
	case errors.As(err, &host):
		return setup.New("the certificate of Redis is for another name: "+host.Error(), "name the host of the certificate in the URL, or add ?server_name=NAME")
	case errors.As(err, &invalid):
		return setup.New("the certificate of Redis is not valid: "+invalid.Error(), "renew it")
	case errors.As(err, &record):
		return plainPort()
	case has("certificate required"), has("bad certificate"), has("unknown certificate authority"), has("certificate expired"):
		return setup.New("Redis refuses the client certificate, or requires one", "name a certificate that Redis accepts: ?cert=FILE&key=FILE in the URL")
	}
	return err
}

func plainPort() error {
	return setup.New("the URL selects TLS (rediss), but the port of Redis is without TLS", "use redis:// in the URL, or the port of tls-port in redis.conf")
}

func tlsPort() error {
	return setup.New("the URL selects no TLS (redis), but the port of Redis requires TLS", "use rediss:// in the URL (with ?ca=FILE for a private authority)")
}
