// Package orchestrion has functions with a directive //weir:limit limited in programs that
// are built with [orchestrion] 1.15: in the module's orchestrion.tool.go,
//
//	import _ "github.com/floodweir/weir/contrib/orchestrion"
//
// orchestrion.yml beside this file says what is woven. For
//
//	//weir:limit name=price limit=2 interval=60 key=item
//	func Price(ctx context.Context, item string) (price int, err error) { … }
//
// it is a variable of the package, and statements at the beginning of the function:
//
//	var weirLimit__Price = orchestrion.MustGuard("", "Price", "name=price", "limit=2", "interval=60", "key=item")
//
//	weirEntry, weirErr := weirLimit__Price.Enter(ctx, guard.Key(item))
//	if weirErr != nil {
//		err = weirErr
//		return
//	}
//	defer weirEntry.Done(&err)
//
// The functions of this package are for that code. A program that makes a guard by hand
// takes package guard.
//
// # Errors
//
// A directive that cannot be followed fails the build or ends the program at its start,
// with a message that names the function. None is ignored.
//
// [orchestrion]: https://github.com/DataDog/orchestrion
package orchestrion
