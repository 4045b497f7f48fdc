package live

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile/published"
)

var errNotConnected = fmt.Errorf("not connected: %w", weir.ErrUnavailable)

// Published returns a Newest for a Config, which reads the policies published in a Redis.
func Published(conn func() redisstore.Conn) func(context.Context) (Version, error) {
	return (&versions{conn: conn}).newest
}

// Instances returns a Programs for a Config, which reads the Go programs of package instances.
func Instances(conn func() redisstore.Conn) func(context.Context) ([]Program, error) {
	return (&programs{conn: conn}).read
}

// versions reads the newest published version.
type versions struct {
	conn func() redisstore.Conn

	mu   sync.Mutex
	last Version
}

// newest returns the newest version. It reads the policies only after the number changed.
func (v *versions) newest(ctx context.Context) (Version, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	conn := v.conn()
	if conn == nil {
		return v.last, errNotConnected
	}
	n, err := published.Current(ctx, conn)
	if err != nil || n == v.last.Number {
		return v.last, err
	}
	if n == 0 {
		v.last = Version{}
		return v.last, nil
	}
	one, err := published.Get(ctx, conn, n)
	if err != nil {
		return v.last, err
	}
	edge, err := published.EdgeError(ctx, conn)
	if err != nil {
		return v.last, err
	}
	v.last = Version{Number: n, By: one.By, Note: one.Note, At: one.At.Format(time.RFC3339), Nginx: edge}
	return v.last, nil
}

// programsEvery is the interval between two reads of the Go programs, whose lists are long.
const programsEvery = instances.DefaultEvery

// programs reads the Go programs of the store.
type programs struct {
	conn func() redisstore.Conn

	mu   sync.Mutex
	at   time.Time
	last []Program
}

// read returns the programs as of the last programsEvery.
func (g *programs) read(ctx context.Context) ([]Program, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.at) < programsEvery {
		return g.last, nil
	}
	conn := g.conn()
	if conn == nil {
		return nil, errNotConnected
	}
	all, err := instances.Read(ctx, conn)
	if err != nil {
		return nil, err
	}
	g.at, g.last = time.Now(), nil
	for _, one := range all {
		g.last = append(g.last, Program{
			ID: one.ID, Service: one.Service, Host: one.Host, PID: one.PID, Version: one.Version,
			Functions: len(one.Functions) + one.Omitted, SeenMS: one.Seen.Milliseconds(), Stale: one.Stale(), Problem: one.Problem,
			Adjusts: one.Adjusts, Policies: one.Policies,
		})
	}
	return g.last, nil
}
