package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// TestRun checks that five messages go at once and one every tenth of a second after them.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		began := time.Now()
		if err := run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		if want := "second 1: 14 sent\nsecond 2: 6 sent\n"; out.String() != want {
			t.Errorf("run printed %q, want %q", out.String(), want)
		}
		if took := time.Since(began); took < 1500*time.Millisecond {
			t.Errorf("run took %v, want at least 1.5s", took)
		}
	})
}

// paced is a handler behind Pace that notes which messages it had.
func paced(t *testing.T, limit string, c weir.Config) (h message.HandlerFunc, had *[]string) {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	l, err := weir.New(store, weir.MustLimit(limit), c)
	if err != nil {
		t.Fatal(err)
	}
	had = new([]string)
	return Pace(l, "k")(func(m *message.Message) ([]*message.Message, error) {
		*had = append(*had, m.UUID)
		return nil, nil
	}), had
}

func TestPaceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, had := paced(t, "1/s burst 1", weir.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var errs []error
		for _, id := range []string{"a", "b", "c"} {
			m := message.NewMessage(id, nil)
			if id == "b" {
				m.SetContext(ctx)
			}
			_, err := h(m)
			errs = append(errs, err)
		}
		if errs[0] != nil || !errors.Is(errs[1], context.DeadlineExceeded) || errs[2] != nil {
			t.Errorf("errors %v, want one for b", errs)
		}
		if !slices.Equal(*had, []string{"a", "c"}) {
			t.Errorf("handled %v, want a and c", *had)
		}
	})
}

// TestNack checks that a message that waits too long is nacked, and redelivered.
func TestNack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, had := paced(t, "1/s burst 1", weir.Config{})
		pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
		router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		router.AddConsumerHandler("h", "topic", pubsub, func(m *message.Message) error {
			ctx, cancel := context.WithTimeout(m.Context(), 300*time.Millisecond)
			defer cancel()
			m.SetContext(ctx)
			tries++
			_, err := h(m)
			return err
		})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- router.Run(ctx) }()
		<-router.Running()
		if err := pubsub.Publish("topic", message.NewMessage("a", nil), message.NewMessage("b", nil)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := errors.Join(<-over, pubsub.Close()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(*had, []string{"a", "b"}) || tries != 5 {
			t.Errorf("handled %v in %d tries, want a and b in 5: b has to wait a second", *had, tries)
		}
	})
}

func TestPaceWithTooManyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := paced(t, "1/m burst 1", weir.Config{MaxWaiters: 1})
		if _, err := h(message.NewMessage("a", nil)); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = h(message.NewMessage("b", nil)) }()
		synctest.Wait()
		if _, err := h(message.NewMessage("c", nil)); err == nil || !strings.Contains(err.Error(), "retry after") {
			t.Errorf("error %v, want one that says when to try again", err)
		}
		time.Sleep(time.Minute)
	})
}
