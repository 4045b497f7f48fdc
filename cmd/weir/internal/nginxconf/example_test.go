package nginxconf_test

import (
	"fmt"
	"os"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

const shop = `http {
	limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s;
	server {
		server_name shop.example;
		limit_req zone=one burst=20;
		location = /login {
			limit_req zone=one;
		}
	}
}`

func ExampleRead() {
	files := nginxconf.Files{Read: func(string) ([]byte, error) { return []byte(shop), nil }}
	root, err := nginxconf.Read("nginx.conf", files, func(include *nginxconf.Directive, err error) {
		fmt.Fprintf(os.Stderr, "%s:%d: %v\n", include.File, include.Line, err)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range root[0].Block {
		fmt.Println(d.Line, d, d.IsBlock())
	}
	// Output:
	// 2 limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s false
	// 3 server true
}

func ExampleLimits() {
	files := nginxconf.Files{Read: func(string) ([]byte, error) { return []byte(shop), nil }}
	root, err := nginxconf.Read("nginx.conf", files, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	h, err := nginxconf.Limits(root)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range h.Servers {
		for _, o := range s.Scopes {
			for _, u := range o.Uses {
				fmt.Printf("%s%s: %d/%s, burst %d\n", s.Name(), o.Pattern, u.Zone.Count, u.Zone.Per, u.Burst)
			}
		}
	}
	// Output:
	// shop.example: 10/s, burst 20
	// shop.example/login: 10/s, burst 0
}
