package run

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"
)

// What a client may cost a door before its request is understood, and between
// requests.
const (
	readHeaderTimeout = 10 * time.Second
	requestTimeout    = 30 * time.Second // of doors whose requests are small, with their bodies
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 250
)

// A door is one HTTP server on one address. It speaks HTTP/1.1 and HTTP/2, the
// latter also without TLS.
type door struct {
	name    string // "gateway"
	flag    string // the flag that moves it elsewhere
	addr    string
	handler http.Handler
	cert    func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil: no TLS
	trusts  bool                                                 // whoever reaches it may do what it offers
	whole   time.Duration                                        // in which a whole request has to come; 0: the handler sees to it
	log     *slog.Logger

	server *http.Server
	bound  net.Addr
	cancel context.CancelFunc // of every request
	active sync.WaitGroup     // requests, upgraded connections included
	failed chan error         // gets why serving ended, if not by drain; then it is closed
	stop   sync.Once
}

// start listens and serves. An error says what to do about it.
func (d *door) start() error {
	listener, err := net.Listen("tcp", d.addr)
	if err != nil {
		return cannotListen(d.name, d.flag, d.addr, err)
	}
	d.bound = listener.Addr()
	d.failed = make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	d.cancel = cancel
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	d.server = &http.Server{
		Handler:           http.HandlerFunc(d.serve),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       d.whole,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		Protocols:         protocols,

		DisableGeneralOptionsHandler: true, // OPTIONS * counts as every request does
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ErrorLog:                     slog.NewLogLogger(d.log.With("door", d.name).Handler(), slog.LevelDebug),
	}
	serve := d.server.Serve
	if d.cert != nil {
		d.server.TLSConfig = &tls.Config{GetCertificate: d.cert, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return d.server.ServeTLS(l, "", "") }
	}
	go func() {
		defer close(d.failed)
		if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.failed <- fmt.Errorf("%s: %w", d.name, err)
		}
	}()
	d.log.Info("listening", "door", d.name, "url", d.url())
	warnOpen(d.log, d.name, d.bound, d.trusts)
	return nil
}

// warnOpen tells of a door that trusts whoever reaches it, and that others can reach.
func warnOpen(log *slog.Logger, name string, bound net.Addr, trusts bool) {
	if ip := bound.(*net.TCPAddr).IP; trusts && !ip.IsLoopback() {
		log.Warn("this door is open to other machines and asks nobody for a password", "door", name, "address", bound.String())
	}
}

func (d *door) serve(w http.ResponseWriter, r *http.Request) {
	d.active.Add(1)
	defer d.active.Done()
	d.handler.ServeHTTP(w, r)
}

// url is where a client on this machine finds the door.
func (d *door) url() string {
	addr := d.bound.(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if d.cert != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, fmt.Sprint(addr.Port)))
}

// drain takes no more connections and waits for the requests in flight, upgraded
// connections included, until ctx is done; then it ends them. Draining twice
// changes nothing.
func (d *door) drain(ctx context.Context) {
	d.stop.Do(func() {
		err := d.server.Shutdown(ctx)
		if err == nil {
			err = d.wait(ctx) // for what Shutdown does not know: hijacked connections
		}
		if err != nil {
			d.log.Warn("requests were cut off at the end of the drain", "door", d.name)
		}
		d.cancel()
		d.server.Close()
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.wait(last)
	})
}

func (d *door) wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		d.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cannotListen says what to do about a door that does not open.
func cannotListen(name, flag, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s is in use by another program: end that, or choose another address with --%s (off keeps the door shut)", name, addr, flag)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("%s: this user may not listen on %s: choose a port from 1024 on with --%s", name, addr, flag)
	}
	return fmt.Errorf("%s: cannot listen on %s: %w: choose another address with --%s", name, addr, err, flag)
}
