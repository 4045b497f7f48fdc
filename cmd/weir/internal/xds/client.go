package xds

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

// Config is the configuration of a Client. Server and Apply are required.
type Config struct {
	// Server is the HOST:PORT of the control plane.
	Server string

	// NodeID and Metadata identify the node, by which the control plane selects the
	// resources.
	NodeID   string
	Metadata map[string]string

	// Headers are sent with each stream.
	Headers map[string]string

	// TLS encrypts the connection; plain text if nil.
	TLS *TLS

	// MaxMessage is the maximum size of a response in bytes; 4 MiB if zero.
	MaxMessage int

	// ConnectPause is the time between two streams before the first configuration;
	// DefaultConnectPause if zero.
	ConnectPause time.Duration

	// Afterwards the time grows from FirstPause, DefaultFirstPause if zero, to LastPause,
	// DefaultLastPause if zero, until a response arrives. Jitter is the part of the time by
	// which it varies.
	FirstPause, LastPause time.Duration
	Jitter                float64

	// Apply puts resources into force, or returns why not. It is not called concurrently, nor
	// for what it refused last.
	Apply func([]Resource) error

	// Log receives changes and errors; nothing is logged if nil.
	Log *slog.Logger
}

// Defaults of a Config.
const (
	DefaultConnectPause = 3 * time.Second
	DefaultFirstPause   = 10 * time.Second
	DefaultLastPause    = time.Minute
)

const (
	// A control plane may close connections with more frequent pings than one in 5 min.
	idlePing = 6 * time.Minute

	// The pause before the rejection of a version that was rejected before doubles from
	// firstReject to lastReject: go-control-plane sends that version again at once.
	firstReject = time.Second
	lastReject  = time.Minute

	maxDetail = 4 << 10 // bytes of the error in a rejection
)

// A Client follows one control plane.
type Client struct {
	c       Config
	first   chan struct{} // closed with the first configuration in force
	applied sync.Once

	rejected string // the last version that was rejected
	reject   *backoff.ExponentialBackOff

	refused []Resource // what Apply refused last, with the error refusal; nil: nothing
	refusal error
}

// New returns a Client. Run starts it.
func New(c Config) (*Client, error) {
	if c.Server == "" || c.Apply == nil {
		return nil, errors.New("xds: server and apply: want both")
	}
	for _, d := range []struct {
		value   *time.Duration
		instead time.Duration
	}{{&c.ConnectPause, DefaultConnectPause}, {&c.FirstPause, DefaultFirstPause}, {&c.LastPause, DefaultLastPause}} {
		if *d.value <= 0 {
			*d.value = d.instead
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{c: c, first: make(chan struct{}), reject: growing(firstReject, lastReject, 0)}, nil
}

// growing returns pauses that double from first to last and vary by a part of them.
func growing(first, last time.Duration, jitter float64) *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: max(first, last), Multiplier: 2, RandomizationFactor: jitter}
	b.Reset()
	return b
}

// First is closed as soon as a configuration is in force.
func (k *Client) First() <-chan struct{} { return k.first }

// Run follows the control plane until ctx ends. It must be called once.
func (k *Client) Run(ctx context.Context) {
	pauses := growing(k.c.FirstPause, k.c.LastPause, k.c.Jitter)
	for {
		received, err := k.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		if received {
			pauses.Reset()
		}
		pause := k.pause(pauses)
		k.c.Log.Warn("control plane disconnected: the last limits stay in force", "server", k.c.Server, "again_in", pause.Round(time.Millisecond).String(), "error", err)
		if !sleep(ctx, pause) {
			return
		}
	}
}

// pause returns the time until the next stream.
func (k *Client) pause(pauses *backoff.ExponentialBackOff) time.Duration {
	select {
	case <-k.first:
		return pauses.NextBackOff()
	default:
		return time.Duration(float64(k.c.ConnectPause) * (1 + k.c.Jitter*(2*rand.Float64()-1)))
	}
}

// sleep waits for d, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// stream runs one stream, and reports whether a response was received.
func (k *Client) stream(ctx context.Context) (received bool, err error) {
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(ctx, metadata.New(k.c.Headers)))
	defer cancel()
	transport, err := k.c.TLS.credentials()
	if err != nil {
		return false, err
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: idlePing}),
	}
	if k.c.MaxMessage > 0 {
		options = append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(k.c.MaxMessage)))
	}
	conn, err := grpc.NewClient(k.c.Server, options...)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return false, err
	}
	// A control plane that restarted counts its versions anew, so no version is sent.
	request := &discovery.DiscoveryRequest{Node: k.node(), TypeUrl: typeURL}
	accepted := ""
	for {
		if err := stream.Send(request); err != nil {
			_, err = stream.Recv() // has the cause
			return received, err
		}
		response, err := stream.Recv()
		if err != nil {
			return received, err
		}
		received = true
		request = &discovery.DiscoveryRequest{TypeUrl: typeURL, ResponseNonce: response.GetNonce()}
		if err := k.apply(response); err != nil {
			if !k.delay(ctx, response.GetVersionInfo()) {
				return received, ctx.Err()
			}
			request.ErrorDetail = &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: detail(err)}
		} else {
			accepted = response.GetVersionInfo()
		}
		request.VersionInfo = accepted
	}
}

// apply puts a response into force.
func (k *Client) apply(r *discovery.DiscoveryResponse) error {
	if r.GetTypeUrl() != typeURL {
		return fmt.Errorf("xds: response of the type %q, want %s", r.GetTypeUrl(), typeURL)
	}
	resources, err := decode(r.GetResources())
	if err != nil {
		k.c.Log.Error("limits of the control plane not readable: the last ones stay in force", "version", r.GetVersionInfo(), "error", err)
		return err
	}
	if k.refused != nil && slices.EqualFunc(resources, k.refused, Resource.equal) {
		return k.refusal
	}
	if err = k.c.Apply(resources); err != nil {
		k.refused, k.refusal = resources, err
		k.c.Log.Warn("limits of the control plane rejected", "version", r.GetVersionInfo())
		return err
	}
	k.rejected, k.refused = "", nil
	k.applied.Do(func() { close(k.first) })
	k.c.Log.Info("limits of the control plane in force", "version", r.GetVersionInfo(), "domains", len(resources))
	return nil
}

// delay waits before the rejection of a version that was rejected before. It reports whether
// ctx has not ended.
func (k *Client) delay(ctx context.Context, version string) bool {
	if version != k.rejected {
		k.rejected = version
		k.reject.Reset()
		return true
	}
	return sleep(ctx, k.reject.NextBackOff())
}

func detail(err error) string {
	text := err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
}

func (k *Client) node() *core.Node {
	fields := map[string]*structpb.Value{}
	for name, value := range k.c.Metadata {
		fields[name] = structpb.NewStringValue(value)
	}
	return &core.Node{Id: k.c.NodeID, Metadata: &structpb.Struct{Fields: fields}}
}
