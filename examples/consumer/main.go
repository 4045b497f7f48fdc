// Command consumer limits the consumption of messages: the consumers of two topics send mails
// through one provider that accepts ten per second.
//
//	$ go run .
//	second 1: 14 sent
//	second 2: 6 sent
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

const (
	limit   = "10/s burst 5"
	perEach = 10 // messages of each topic
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run publishes and consumes all messages, and prints the number sent in each second.
func run(ctx context.Context, out io.Writer) error {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	limiter, err := weir.New(store, weir.MustLimit(limit), weir.Config{})
	if err != nil {
		return err
	}
	// Each topic is in order: the next message comes when the one before is acked.
	pubsub := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, nil)
	defer func() { _ = pubsub.Close() }()
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	router.AddMiddleware(Pace(limiter, "mail-provider"))

	seconds := newTally()
	topics := []string{"welcome", "invoice"}
	for _, topic := range topics {
		next := 0
		router.AddConsumerHandler("send-"+topic, topic, pubsub, func(m *message.Message) error {
			if m.UUID != strconv.Itoa(next) {
				return fmt.Errorf("%s: got message %s, want %d", topic, m.UUID, next)
			}
			next++
			seconds.add()
			return nil
		})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- router.Run(ctx) }()
	select {
	case <-router.Running():
	case err := <-over:
		return err
	}
	var publishing sync.WaitGroup
	for _, topic := range topics {
		publishing.Go(func() { publish(pubsub, topic) })
	}
	go func() {
		publishing.Wait()
		cancel() // all are acked
	}()
	if err := <-over; err != nil {
		return err
	}
	return seconds.print(out)
}

// publish publishes the messages of a topic, until they are acked or pubsub is closed.
func publish(pubsub message.Publisher, topic string) {
	for i := range perEach {
		if pubsub.Publish(topic, message.NewMessage(strconv.Itoa(i), nil)) != nil {
			return
		}
	}
}
