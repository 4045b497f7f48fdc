package redisledger_test

import (
	"fmt"

	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

// newStore returns a store that divides limits among the processes of one Redis. Its Close returns
// the shares.
func newStore(conn redisstore.Conn) (*share.Store, error) {
	strict, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		return nil, err
	}
	ledger, err := redisledger.New(conn, "")
	if err != nil {
		return nil, err
	}
	return share.New(strict, ledger, share.Config{})
}

func Example() {
	_, err := newStore(nil) // a connection of contrib/rueidis or contrib/goredis
	fmt.Println(err)
	// Output: redisstore: conn: invalid: got nil, want a connection such as that of contrib/rueidis
}
