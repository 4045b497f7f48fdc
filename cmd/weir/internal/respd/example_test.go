package respd_test

import (
	"fmt"
	"io"
	"log"
	"net"

	"github.com/floodweir/weir/cmd/weir/internal/respd"
	"github.com/floodweir/weir/memstore"
)

func Example() {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	s, err := respd.New(respd.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go s.Serve(l)
	defer s.Close()

	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "CL.THROTTLE user123 15 30 60\r\nQUIT\r\n")
	reply, err := io.ReadAll(c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", reply)
	// Output: "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+OK\r\n"
}
