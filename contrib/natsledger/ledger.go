package natsledger

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

// Config adjusts a ledger. Its zero value works with one server.
type Config struct {
	// Bucket names the bucket; DefaultBucket if empty. Ledgers with the same bucket share their rows.
	Bucket string

	// Replicas is the number of servers that store the bucket, 1, 3 or 5; 1 if zero. It is used
	// when New creates the bucket.
	Replicas int
}

// DefaultBucket is the default of Config.Bucket.
const DefaultBucket = "weir_shares"

type ledger struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
}

// New returns a ledger. It creates the bucket if there is none. An error wraps weir.ErrInvalid if an
// argument is invalid or the bucket has other settings, and weir.ErrUnavailable otherwise.
func New(ctx context.Context, js jetstream.JetStream, c Config) (share.Ledger, error) {
	if js == nil {
		return nil, fmt.Errorf("natsledger: js: %w: got nil, want a jetstream.JetStream", weir.ErrInvalid)
	}
	if c.Replicas != 0 && c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		return nil, fmt.Errorf("natsledger: Replicas: %w: got %d, want 1, 3 or 5", weir.ErrInvalid, c.Replicas)
	}
	bucket := cmp.Or(c.Bucket, DefaultBucket)
	l := &ledger{js: js, subject: "$KV." + bucket + "."}
	s, err := js.Stream(ctx, "KV_"+bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: "KV_" + bucket, Subjects: []string{l.subject + ">"}, Description: "shares of limits (Weir)",
			MaxMsgsPerSubject: 1, AllowMsgTTL: true, Discard: jetstream.DiscardNew, Replicas: cmp.Or(c.Replicas, 1),
		})
	}
	switch {
	case errors.Is(err, jetstream.ErrInvalidStreamName):
		return nil, fmt.Errorf("natsledger: Bucket: %w: got %q, want letters, digits, - and _", weir.ErrInvalid, bucket)
	case err != nil:
		return nil, unavailable("new", err)
	}
	l.stream = s
	return l, check(bucket, s.CachedInfo().Config)
}

// check refuses a bucket that breaks a rule of ledgers.
func check(bucket string, c jetstream.StreamConfig) error {
	var wrong string
	switch {
	case c.AllowDirect:
		wrong = "allow_direct: got true, want false: replicas answer late"
	case c.MaxMsgsPerSubject != 1:
		wrong = fmt.Sprintf("history: got %d, want 1: a former row would return", c.MaxMsgsPerSubject)
	case !c.AllowMsgTTL:
		wrong = "allow_msg_ttl: got false, want true"
	case c.MaxAge != 0 || c.SubjectDeleteMarkerTTL != 0:
		wrong = "max_age and subject_delete_marker_ttl: want none"
	case c.Discard != jetstream.DiscardNew:
		wrong = "discard: got old, want new: a full bucket would delete rows"
	default:
		return nil
	}
	return fmt.Errorf("natsledger: bucket %s: %w: %s", bucket, weir.ErrInvalid, wrong)
}

// Load implements [share.Ledger].
func (l *ledger) Load(ctx context.Context, names []string, rows []share.Stored) (now time.Time, err error) {
	err = each(len(names)+1, func(i int) error {
		if i == len(names) {
			info, err := l.stream.Info(ctx)
			if err == nil {
				now = info.TimeStamp.Truncate(time.Microsecond)
			}
			return err
		}
		rows[i] = share.Stored{}
		m, err := l.stream.GetLastMsgForSubject(ctx, l.name(names[i]))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return nil
		case err == nil:
			rows[i] = share.Stored{Version: m.Sequence, Data: m.Data}
		}
		return err
	})
	if err != nil {
		return now, unavailable("load", err)
	}
	return now, nil
}

// Swap implements [share.Ledger].
func (l *ledger) Swap(ctx context.Context, swaps []share.Swap) error {
	err := each(len(swaps), func(i int) error {
		s := &swaps[i]
		keep := max(time.Second, (s.Keep + time.Second - 1).Truncate(time.Second)) // NATS counts seconds
		_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.name(s.Name), Data: s.Data},
			jetstream.WithExpectLastSequencePerSubject(s.Version), jetstream.WithMsgTTL(keep))
		var wrong *jetstream.APIError
		s.Done = err == nil
		if errors.As(err, &wrong) && wrong.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			return nil
		}
		return err
	})
	if err != nil {
		return unavailable("swap", err)
	}
	return nil
}

func (l *ledger) name(name string) string {
	return l.subject + base64.RawURLEncoding.EncodeToString([]byte(name))
}

// each calls do for 0 to n-1 at the same time.
func each(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func unavailable(what string, err error) error {
	return fmt.Errorf("natsledger: %s: %w: %w", what, weir.ErrUnavailable, err)
}
