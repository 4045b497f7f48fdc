package redisinventory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/redis/rueidis"
)

// client is one that is never asked.
type client struct{ rueidis.Client }

func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		client rueidis.Client
		cfg    redisinventory.Config
		want   string
	}{
		"no client":         {nil, redisinventory.Config{}, "client is nil"},
		"prefix with brace": {client{}, redisinventory.Config{Prefix: "a{b}"}, "Prefix"},
		"long prefix":       {client{}, redisinventory.Config{Prefix: strings.Repeat("a", 33)}, "Prefix"},
		"short deadline":    {client{}, redisinventory.Config{Deadline: time.Millisecond}, "Deadline"},
		"negative":          {client{}, redisinventory.Config{Redeliver: -time.Second}, "Redeliver"},
		"short watch":       {client{}, redisinventory.Config{Watch: 1}, "Watch"},
		"no tickets":        {client{}, redisinventory.Config{MaxTickets: -1}, "MaxTickets"},
	} {
		if _, err := redisinventory.New(c.client, c.cfg); !errors.Is(err, redisinventory.ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, want ErrConfig about %s", name, err, c.want)
		}
	}
	g, err := redisinventory.New(client{}, redisinventory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g.Stop()
	g.Stop()
}
