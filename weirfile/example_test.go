package weirfile_test

import (
	"encoding/json"
	"fmt"

	"github.com/floodweir/weir/weirfile"
)

func ExampleParse() {
	f, err := weirfile.Parse("weir.yaml", []byte(`
policies:
  - name: api-per-client
    match: /api/*
    key: [client.ip]
    limits: ["10/s burst 20", 5000/24h]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range f.Policies.Policies() {
		fmt.Println(p.Name(), p.Config().Limits)
	}
	// Output: api-per-client [10/s burst 20 5000/24h burst 5000]
}

func ExampleParse_errors() {
	_, err := weirfile.Parse("weir.yaml", []byte(`store: memory
policies:
  - name: login
    match: { path: /login }
    key: [client.ip]
    limits: [5/fortnight]
    cost: -1
`))
	fmt.Println(err)
	// Output:
	// weir.yaml:4:14: policies[0].match.path: unknown field, did you mean paths?
	// weir.yaml:6:14: policies[0].limits[0]: "5/fortnight": period: want a duration such as 1m30s, or s, minute, day, month and the like, got "fortnight"
	// weir.yaml:7:11: policies[0].cost: -1: want a whole number from 1 to 1099511627776
}

func ExampleSchema() {
	var schema struct {
		Title string `json:"title"`
	}
	if err := json.Unmarshal(weirfile.Schema(), &schema); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.Title)
	// Output: A policy file of Weir
}
