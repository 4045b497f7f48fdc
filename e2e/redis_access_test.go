package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/storetest"
)

// documentedACL returns the ACL line of redisstore's documentation, for another key prefix.
func documentedACL(t testing.TB, keys string) string {
	t.Helper()
	doc, err := os.ReadFile("../redisstore/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`ACL SETUSER (weir on >secret .*)`).FindSubmatch(doc)
	if m == nil {
		t.Fatal("redisstore/doc.go has no ACL line")
	}
	line := strings.Replace(string(m[1]), "~weir:1:*", "~"+keys, 1)
	if !strings.Contains(line, "~"+keys) {
		t.Fatalf("the ACL line %q has no keys", line)
	}
	return "user " + line
}

// TestRedisACL runs the suite as a user who has only the documented permissions, and every verb
// with the clients whose suite is in TestRedisConformance.
func TestRedisACL(t *testing.T) {
	t.Parallel()
	acl := documentedACL(t, "t*")
	urls := map[string]string{
		"standalone": "redis://weir:secret@" + redistest.Start(t, acl).Addr,
		"cluster":    "redis+cluster://weir:secret@" + redistest.StartCluster(t, acl).Addrs(),
	}
	for _, w := range append(redisSuites.permitted, redisSuites.all...) {
		t.Run(w.topology+"/"+w.client, func(t *testing.T) {
			t.Parallel()
			conn := openConn(t, w.client, urls[w.topology])
			if slices.Contains(redisSuites.permitted, w) {
				storetest.Run(t, openRedis(conn))
			}
			store := newRedisStore(t, conn, redisstore.Config{Prefix: "t"})
			if _, err := store.Probe(t.Context()); err != nil {
				t.Errorf("Probe = error %v", err)
			}
			everyVerb(t, store, w.client)
			wantUnavailable(t, newRedisStore(t, conn, redisstore.Config{Prefix: "other"}), "k", weir.MustLimit("1/s"), "")
		})
	}
}

// everyVerb makes a request with each verb and a batch of them.
func everyVerb(t *testing.T, store weir.Store, key string) {
	t.Helper()
	limit := weir.MustLimit("100/h")
	batch := []weir.Request{
		{Verb: weir.Take, N: 1}, {Verb: weir.TakeUpTo, N: 1}, {Verb: weir.Charge, N: 1}, {Verb: weir.Return, N: 1}, {Verb: weir.Peek},
		{Verb: weir.Reserve, N: 1, ID: "a", TTL: time.Hour}, {Verb: weir.Commit, N: 1, ID: "a"},
		{Verb: weir.Reserve, N: 1, ID: "b", TTL: time.Hour}, {Verb: weir.Cancel, ID: "b"},
	}
	for i := range batch {
		batch[i].Key, batch[i].Limit = key, limit
		if d, err := store.Do(t.Context(), batch[i]); err != nil || !d.OK {
			t.Errorf("%s = %+v, %v, want OK", batch[i].Verb, d, err)
		}
	}
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Reset, Key: key, Limit: limit})
	if err != nil || d.Remaining != 100 {
		t.Errorf("reset = %+v, %v, want 100 remaining", d, err)
	}
	if ok, err := store.DoAll(t.Context(), batch, make([]weir.Decision, len(batch))); err != nil || !ok {
		t.Errorf("a batch of every verb = %v, %v, want OK", ok, err)
	}
}

func TestRedisWrongPassword(t *testing.T) {
	s := redistest.Start(t, documentedACL(t, "*"))
	if conn, err := redisConns["rueidis"]("redis://weir:wrong@" + s.Addr); !errors.Is(err, weir.ErrUnavailable) || strings.Contains(err.Error(), "wrong@") {
		t.Errorf("rueidis.Open with a wrong password = %v, %v, want an error that wraps ErrUnavailable", conn, err)
	}
	wantUnavailable(t, newRedisStore(t, openConn(t, "goredis", "redis://weir:wrong@"+s.Addr), redisstore.Config{}), "k", weir.MustLimit("1/s"), "WRONGPASS")
}

func TestRedisProbe(t *testing.T) {
	ctx := context.Background()
	eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
		store := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{})
		f, err := store.Probe(ctx)
		if err != nil || f.Version == "" || len(f.Warnings) != 0 {
			t.Errorf("Probe = %+v, %v, want a version and no warning", f, err)
		}
		if keys := s.Do(t, "KEYS", "*").([]any); len(keys) != 0 {
			t.Errorf("Probe left %v", keys)
		}
		s.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		s.Do(t, "CONFIG", "SET", "maxmemory", "100mb")
		if f, err := store.Probe(ctx); err != nil || len(f.Warnings) != 1 || !strings.Contains(f.Warnings[0], "noeviction") {
			t.Errorf("Probe of a server that evicts = %+v, %v, want one warning", f, err)
		}
		s.Do(t, "ACL", "SETUSER", "timeless", "on", ">pw", "~*", "+@all", "-time")
		timeless := openConn(t, client, "redis://timeless:pw@"+s.Addr)
		if _, err := newRedisStore(t, timeless, redisstore.Config{}).Probe(ctx); !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "Config.Clock") {
			t.Errorf("Probe without TIME = error %v, want one that names Config.Clock", err)
		}
		own := newRedisStore(t, timeless, redisstore.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
		if _, err := own.Probe(ctx); err != nil {
			t.Errorf("Probe without TIME and with a Clock = error %v", err)
		}
		mustTake(t, own, "k", weir.MustLimit("1/s"), 1)
		s.Stop()
		if _, err := store.Probe(ctx); !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("Probe of a stopped server = error %v, want ErrUnavailable", err)
		}
	})
}

func TestRedisSentinel(t *testing.T) {
	primary := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, "mymaster", primary)
	for client := range redisConns {
		t.Run(client, func(t *testing.T) {
			store := newRedisStore(t, openConn(t, client, "redis+sentinel://"+sentinel.Addr+"/mymaster"), redisstore.Config{Prefix: client})
			if d := mustTake(t, store, "k", weir.MustLimit("5/h"), 3); d.Remaining != 2 {
				t.Errorf("Take(3) of 5 = %+v", d)
			}
		})
	}
}

func TestRedisTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := selfSigned(t, dir)
	tlsPort := porttest.Free(t)
	redistest.Start(t, fmt.Sprintf("tls-port %d\ntls-cert-file %s\ntls-key-file %s\ntls-ca-cert-file %s\ntls-auth-clients optional", tlsPort, cert, key, cert))
	host := fmt.Sprint("127.0.0.1:", tlsPort)
	for client := range redisConns {
		t.Run(client, func(t *testing.T) {
			for _, params := range []string{"?ca=" + cert, "?skip_verify=true", "?ca=" + cert + "&cert=" + cert + "&key=" + key} {
				store := newRedisStore(t, openConn(t, client, "rediss://"+host+params), redisstore.Config{Prefix: client})
				mustTake(t, store, "k", weir.MustLimit("5/h"), 1)
			}
		})
	}
	if conn, err := redisConns["rueidis"]("rediss://" + host); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("rueidis.Open without the certificate's authority = %v, %v, want an error", conn, err)
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "weir test " + dir}, // OpenSSL finds an authority by its name,
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
