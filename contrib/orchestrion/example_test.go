package orchestrion_test

import (
	"context"
	"fmt"

	"github.com/floodweir/weir/contrib/orchestrion"
	"github.com/floodweir/weir/guard"
)

// What is woven for //weir:limit limit=1 key=item, by hand.
func ExampleGuard() {
	g, err := orchestrion.Guard("", "Buy", "limit=1", "key=item")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range []string{"apple", "pear", "apple"} {
		entry, err := g.Enter(context.Background(), guard.Key(item))
		fmt.Println(item, err == nil)
		entry.Exit(nil)
	}
	// Output:
	// apple true
	// pear true
	// apple false
}

func ExampleMustGuard() {
	defer func() { fmt.Println(recover()) }()
	orchestrion.MustGuard("*Shop", "Sell", "cost=2")
	// Output:
	// orchestrion: weir:limit on github.com/floodweir/weir/contrib/orchestrion_test.(*Shop).Sell: invalid: cost cannot be woven by orchestrion: want weir go or weir generate
}
