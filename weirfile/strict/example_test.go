package strict_test

import (
	"fmt"

	"github.com/floodweir/weir/weirfile/strict"
)

func Example() {
	d := strict.Parse("colours.yaml", []byte("rde: 1\ngreen: many\nblue: [2, 3]\ngreen: 4\n"), strict.Config{})
	if root := d.Root(); root.There() {
		m, _ := d.Map(root, "", []string{"red", "green", "blue"})
		for _, name := range m.Order {
			if n := m.Values[name]; n.Kind() != strict.Integer {
				d.Fail(n, name, n.String(), "want a whole number")
			}
		}
	}
	fmt.Println(d.Errors())

	// Output:
	// colours.yaml:1:1: rde: unknown field, did you mean red?
	// colours.yaml:2:8: green: "many": want a whole number
	// colours.yaml:3:7: blue: a list: want a whole number
	// colours.yaml:4:1: green: want every field once: it stands at colours.yaml:2:1 already
}
