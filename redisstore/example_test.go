package redisstore_test

import (
	"fmt"

	"github.com/floodweir/weir/redisstore"
)

func ExampleParseURL() {
	a, err := redisstore.ParseURL("redis+cluster://weir:secret@10.0.0.1:7000,10.0.0.2:7000")
	fmt.Println(a.Topology, a.Hosts, a.Username, err)
	_, err = redisstore.ParseURL("redis://10.0.0.1/limits")
	fmt.Println(err)
	// Output:
	// cluster [10.0.0.1:7000 10.0.0.2:7000] weir <nil>
	// redisstore: url: invalid: database "limits": want a number from 0
}
