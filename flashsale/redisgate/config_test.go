package redisgate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/redisgate"
	"github.com/redis/rueidis"
)

// client is one that is never asked.
type client struct{ rueidis.Client }

func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		client rueidis.Client
		cfg    redisgate.Config
		want   string
	}{
		"no client":         {nil, redisgate.Config{}, "client is nil"},
		"prefix with brace": {client{}, redisgate.Config{Prefix: "a{b}"}, "Prefix"},
		"long prefix":       {client{}, redisgate.Config{Prefix: strings.Repeat("a", 33)}, "Prefix"},
		"short deadline":    {client{}, redisgate.Config{Deadline: time.Millisecond}, "Deadline"},
		"negative":          {client{}, redisgate.Config{Redeliver: -time.Second}, "Redeliver"},
		"short watch":       {client{}, redisgate.Config{Watch: 1}, "Watch"},
		"no tickets":        {client{}, redisgate.Config{MaxTickets: -1}, "MaxTickets"},
	} {
		if _, err := redisgate.New(c.client, c.cfg); !errors.Is(err, redisgate.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, want ErrConfig about %s", name, err, c.want)
		}
	}
	g, err := redisgate.New(client{}, redisgate.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g.Stop()
	g.Stop()
}
