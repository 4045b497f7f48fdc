package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
)

// A listener accepts connections on one address and passes them to the server of one
// interface.
type listener struct {
	name string // of the interface: "gateway"
	flag string // sets the address: "--listen-gateway", or a variable
	addr string

	// open means that the interface requires no credentials. If remedy, how to require them,
	// is not empty, it then only listens on loopback.
	open   bool
	remedy string

	// secret means that clients send a token or password, and encrypted that they use TLS.
	secret, encrypted bool

	// scheme is the scheme of URLs to the interface; "" for a protocol other than HTTP.
	scheme string

	// maxConnections is the maximum of open connections; 0 if the server refuses those
	// beyond it. Their number is in metrics.
	maxConnections int
	metrics        *metrics.Metrics

	level  slog.Level // of the log line that it listens
	server server

	bound net.Addr
	ended chan struct{} // closed when the server has returned
	once  sync.Once
}

// A server serves the connections of one interface.
type server interface {
	// Serve returns when the listener is closed, or with an error.
	Serve(net.Listener) error

	// Shutdown stops accepting connections and waits for the requests in flight. When ctx
	// ends, it cancels them and returns an error.
	Shutdown(ctx context.Context) error
}

// start listens and serves in the background. If serving ends before drain, failed
// receives the error.
func (l *listener) start(log *slog.Logger, failed chan<- error) error {
	// An address in numbers is checked first, so that the error is not that the port is in use.
	if host, _, err := net.SplitHostPort(l.addr); err == nil && l.open && l.remedy != "" && (host == "" || net.ParseIP(host) != nil && !net.ParseIP(host).IsLoopback()) {
		return l.unprotected()
	}
	nl, err := net.Listen("tcp", l.addr)
	if err != nil {
		return l.cannotListen(err)
	}
	if addr := nl.Addr().(*net.TCPAddr); l.open && !addr.IP.IsLoopback() {
		if l.remedy != "" {
			nl.Close()
			return l.unprotected()
		}
		log.Warn("interface without authentication is reachable from other machines", "interface", l.name, "address", addr.String())
	}
	l.bound, l.ended = nl.Addr(), make(chan struct{})
	if l.secret && !l.encrypted && !l.loopback() {
		log.Warn(fmt.Sprintf("tokens and passwords are sent without TLS: set --%s-tls-cert and --%[1]s-tls-key, unless the network encrypts", l.name), "interface", l.name)
	}
	limited := &limitedListener{Listener: nl, name: l.name, max: int64(l.maxConnections), metrics: l.metrics, log: log}
	go func() {
		defer close(l.ended)
		if err := l.server.Serve(limited); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("%s: %w", l.name, err)
		}
	}()
	at := slog.String("address", l.bound.String())
	if l.scheme != "" {
		at = slog.String("url", l.url())
	}
	log.Log(context.Background(), l.level, "listening", slog.String("interface", l.name), at)
	return nil
}

// credentials says how clients authenticate: by a secret, by certificates, or not at all.
// secretFlag sets the secret; there can be none if empty.
func (l *listener) credentials(secret string, t config.TLS, secretFlag string) {
	l.open, l.secret, l.encrypted = secret == "" && t.ClientCAFile == "", secret != "", t.CertFile != ""
	l.remedy = fmt.Sprintf("client certificates with --%s-client-ca FILE", l.name)
	if secretFlag != "" {
		l.remedy = "openssl rand -hex 32 >FILE and " + secretFlag + ", or " + l.remedy
	}
}

// loopback reports whether only this machine can connect.
func (l *listener) loopback() bool { return l.bound.(*net.TCPAddr).IP.IsLoopback() }

// url returns the URL of the interface for a client on this machine.
func (l *listener) url() string {
	addr := l.bound.(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("%s://%s", l.scheme, net.JoinHostPort(host, fmt.Sprint(addr.Port)))
}

// drain shuts the server down and returns when it has ended. It does nothing if start
// failed, and on further calls.
func (l *listener) drain(ctx context.Context, log *slog.Logger) {
	if l.bound == nil {
		return
	}
	l.once.Do(func() {
		if err := l.server.Shutdown(ctx); err != nil {
			log.Warn("drain timeout: requests in flight canceled", "interface", l.name)
		}
		<-l.ended
	})
}

// unprotected returns the error for an address that other machines can reach.
func (l *listener) unprotected() error {
	return fmt.Errorf("%s: other machines can reach %s, so it requires credentials: %s; or set %s to an address on 127.0.0.1",
		l.name, l.addr, l.remedy, l.flag)
}

// A portInUse is the error of a listener whose address another program has.
type portInUse string

func (e portInUse) Error() string { return string(e) }

// cannotListen adds to err what the user can do about it.
func (l *listener) cannotListen(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		off := ""
		if strings.HasPrefix(l.flag, "--") {
			off = " (off disables the interface)"
		}
		return portInUse(fmt.Sprintf("%s: %s is in use by another program: stop it, or set another address with %s%s", l.name, l.addr, l.flag, off))
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: no permission to listen on %s: set a port of 1024 or more with %s", l.name, l.addr, l.flag)
	}
	return fmt.Errorf("%s: cannot listen on %s: %w: set another address with %s", l.name, l.addr, err, l.flag)
}
