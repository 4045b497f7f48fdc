package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// still is a registry whose clock stands still, so that examples print the same each time.
func still() *guard.Registry {
	store, _ := memstore.New(memstore.Config{Clock: func() int64 { return 1 }})
	r, _ := guard.NewRegistry(guard.Config{Store: store})
	return r
}

func Example() {
	limit := still().MustGuard(guard.Resource{Name: "getId", Limits: []weir.Limit{weir.MustLimit("2/10s")}})
	getID := func(ctx context.Context, user string) (id int, err error) {
		entry, err := limit.Enter(ctx, guard.Key(user))
		if err != nil {
			return 0, err
		}
		defer entry.Done(&err)
		return len(user), nil
	}
	for range 3 {
		fmt.Println(getID(context.Background(), "alice"))
	}
	// Output:
	// 5 <nil>
	// 5 <nil>
	// 0 rate limit exceeded: getId: retry after 5s
}

func ExampleFunc() {
	limit := still().MustGuard(guard.Resource{Name: "browse", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	browse := func(_ context.Context, shelf string) (string, error) { return "all of " + shelf, nil }
	limited := guard.Func(limit, browse, guard.FuncOptions[string, string]{
		Key: func(shelf string) string { return shelf },
		Fallback: func(_ context.Context, shelf string, denied error) (string, error) {
			return "bestsellers of " + shelf, nil
		},
	})
	for range 2 {
		fmt.Println(limited(context.Background(), "poetry"))
	}
	// Output:
	// all of poetry <nil>
	// bestsellers of poetry <nil>
}

// ExampleFunc_onError handles errors of the store: each handler returns a result, guard.Next,
// or another error.
func ExampleFunc_onError() {
	r, _ := guard.NewRegistry(guard.Config{Store: &broken{down: weir.ErrUnavailable}})
	limit := r.MustGuard(guard.Resource{Name: "price"})
	limited := guard.Func(limit, func(context.Context, string) (int, error) { return 100, nil }, guard.FuncOptions[string, int]{
		OnError: []func(context.Context, string, error) (int, error){
			func(_ context.Context, _ string, err error) (int, error) {
				fmt.Println("note:", err)
				return 0, guard.Next
			},
			func(context.Context, string, error) (int, error) { return 99, nil },
		},
	})
	fmt.Println(limited(context.Background(), "book"))
	// Output:
	// note: guard: price: no decision: store unavailable
	// 99 <nil>
}

func ExampleAction() {
	limit := still().MustGuard(guard.Resource{Name: "mail", Limits: []weir.Limit{weir.MustLimit("3/m")}, Message: "too much mail"})
	send := guard.Action(limit, func(_ context.Context, text string) error {
		fmt.Println("sent", text)
		return nil
	}, guard.ActionOptions[string]{Cost: func(text string) int64 { return int64(len(text)) }})
	for _, text := range []string{"a", "bb", "c"} {
		if err := send(context.Background(), text); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// sent a
	// sent bb
	// too much mail
}

func ExamplePlain() {
	limit := still().MustGuard(guard.Resource{Name: "greet", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	_, err := guard.Plain(limit, strings.ToUpper, guard.PlainOptions[string, string]{})
	fmt.Println(err)
	// Output: guard: greet: invalid: got neither Fallback nor Value, want one, because the function returns no error
}

func ExampleMustPlain() {
	limit := still().MustGuard(guard.Resource{Name: "greet", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	greet := guard.MustPlain(limit, func(name string) string { return "good morning, " + name }, guard.PlainOptions[string, string]{
		Fallback: func(name string, _ error) string { return "hi, " + name },
	})
	fmt.Println(greet("bob"))
	fmt.Println(greet("bob"))
	// Output:
	// good morning, bob
	// hi, bob
}

func ExampleEnter() {
	work := func(ctx context.Context) (err error) {
		e, err := guard.Enter(ctx, "resource")
		if err != nil {
			return err
		}
		defer func() { e.Exit(err) }()
		return nil
	}
	fmt.Println(work(context.Background()))
	// Output: <nil>
}

func ExampleRegistry_Enter() {
	seckill, _ := policy.New(policy.Config{
		Name: "seckill", Key: []policy.KeyPart{guard.KeyPart()},
		Limits:    []weir.Limit{weir.MustLimit("2/s")},
		Overrides: []policy.Override{{Key: []string{"101"}, Limits: []weir.Limit{weir.MustLimit("1/s")}}}, // a hot item
	})
	r := still()
	for _, f := range []*guard.Functions{nil, {Rules: []guard.Rule{{Policy: seckill}}}} {
		if err := r.Configure(guard.Config{Functions: f}); err != nil {
			fmt.Println(err)
		}
		for _, item := range []string{"101", "101", "102", "102"} {
			e, err := r.Enter(context.Background(), "seckill", item)
			fmt.Print(item, " ", err == nil, "; ")
			e.Exit(nil)
		}
		fmt.Println("done")
	}
	// Output:
	// 101 true; 101 true; 102 true; 102 true; done
	// 101 true; 101 false; 102 true; 102 true; done
}

func ExampleRegistry_Guard() {
	r := still()
	_, err := r.Guard(guard.Resource{Name: "get id", File: "shop.go", Line: 12})
	fmt.Println(err)
	// Output: guard: shop.go:12: policy "get id": name: "get id": want 1 to 64 letters a to z, digits, '.', '_' and '-', with a letter or digit first
}

func ExampleRegistry_MustGuard() {
	limit := still().MustGuard(guard.Resource{Name: "report", Limits: []weir.Limit{weir.MustLimit("1 concurrency")}})
	first, _ := limit.Enter(context.Background(), "")
	_, err := limit.Enter(context.Background(), "")
	fmt.Println(errors.Is(err, guard.ErrDenied))
	first.Exit(nil)
	_, err = limit.Enter(context.Background(), "")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func ExampleNewRegistry() {
	_, err := guard.NewRegistry(guard.Config{Functions: &guard.Functions{Mode: "on"}})
	fmt.Println(err)
	// Output: guard: functions: mode: invalid: want enforce, shadow or off, got "on"
}

// ExampleRegistry_Configure changes a limit while the program runs.
func ExampleRegistry_Configure() {
	r := still()
	limit := r.MustGuard(guard.Resource{Name: "getId", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	calls := func(user string) (n int) {
		for range 100 {
			if _, err := limit.Enter(context.Background(), user); err == nil {
				n++
			}
		}
		return n
	}
	rule, _ := policy.New(policy.Config{Name: "getId", Key: []policy.KeyPart{guard.KeyPart()}, Limits: []weir.Limit{weir.MustLimit("5/m")}})
	for i, f := range []guard.Functions{{}, {Rules: []guard.Rule{{Policy: rule}}}, {Mode: policy.Shadow}, {Mode: policy.Off}} {
		if err := r.Configure(guard.Config{Functions: &f}); err != nil {
			fmt.Println(err)
		}
		fmt.Print(calls(fmt.Sprint("user", i)), " ")
	}
	// Output: 1 5 100 100
}

func ExampleRegistry_Live() {
	r := still()
	limit := r.MustGuard(guard.Resource{Name: "getId", Function: "shop.GetID", Limits: []weir.Limit{weir.MustLimit("1/m")}})
	for range 3 {
		e, _ := limit.Enter(context.Background(), "")
		e.Exit(nil)
	}
	for _, s := range r.Live() {
		fmt.Println(s.Name, s.Function, s.Limits, s.Mode, s.Passed, s.Denied)
	}
	// Output: getId shop.GetID [1/m burst 1] enforce 1 2
}

func ExampleRegistry_ServeHTTP() {
	mux := http.NewServeMux()
	mux.Handle("/debug/limits", still())
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/debug/limits", nil))
	fmt.Print(w.Body)
	// Output:
	// {
	//   "functions": []
	// }
}

func ExampleDefault() {
	limit := guard.Default().MustGuard(guard.Resource{Name: "ExampleDefault"})
	_, err := limit.Enter(context.Background(), "")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGuard_Enter() {
	limit := still().MustGuard(guard.Resource{Name: "getId", Limits: []weir.Limit{weir.MustLimit("2/m")}})
	entry, err := limit.Enter(context.Background(), "alice")
	if err != nil {
		return
	}
	defer entry.Exit(nil)
	fmt.Println(entry.Decision().Remaining)
	// Output: 1
}

func ExampleGuard_EnterN() {
	limit := still().MustGuard(guard.Resource{Name: "upload", Limits: []weir.Limit{weir.MustLimit("1000/h")}})
	entry, _ := limit.EnterN(context.Background(), "alice", 800)
	entry.Exit(nil)
	_, err := limit.EnterN(context.Background(), "alice", 300)
	fmt.Println(err)
	// Output: rate limit exceeded: upload: retry after 6m0s
}

// ExampleEntry_Done counts a panic as a failure, and gives back what the call held.
func ExampleEntry_Done() {
	r := still()
	limit := r.MustGuard(guard.Resource{Name: "f", Limits: []weir.Limit{weir.MustLimit("1 concurrency")}})
	f := func() (err error) {
		entry, err := limit.Enter(context.Background(), "")
		if err != nil {
			return err
		}
		defer entry.Done(&err)
		panic("a mistake")
	}
	for range 2 {
		func() {
			defer func() { fmt.Println(recover()) }()
			_ = f()
		}()
	}
	fmt.Println(r.Live()[0].Failed)
	// Output:
	// a mistake
	// a mistake
	// 2
}

func ExampleEntry_Exit() {
	limit := still().MustGuard(guard.Resource{Name: "f", Limits: []weir.Limit{weir.MustLimit("1 concurrency")}})
	entry, _ := limit.Enter(context.Background(), "")
	entry.Exit(nil)
	entry.Exit(nil) // does nothing
	_, err := limit.Enter(context.Background(), "")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleKey() {
	fmt.Println(guard.Key("alice"))
	fmt.Println(guard.Key("alice", 7))
	fmt.Println(guard.Key("alice, the first", 7))
	// Output:
	// alice
	// alice,7
	// alice\, the first,7
}

func ExampleName() {
	fmt.Println(guard.Name("example.com/shop", "*Service", "GetID"))
	fmt.Println(guard.Name("example.com/a/very/long/path/that/goes/on/and/on/and/on", "*Service", "GetID"))
	// Output:
	// example.com.shop.Service.GetID
	// very.long.path.that.goes.on.and.on.and.on.Service.GetID-e79efbdf
}

func ExampleDefaultLimit() {
	fmt.Println(guard.DefaultLimit())
	// Output: 100/m fixed_window
}

func ExampleKeyPart() {
	fmt.Println(guard.KeyPart())
	// Output: cel:argument
}

// ExampleFailsOpen handles a *StoreError although the rule admits the call.
func ExampleFailsOpen() {
	r, _ := guard.NewRegistry(guard.Config{Store: &broken{down: weir.ErrUnavailable}})
	limit := r.MustGuard(guard.Resource{Name: "price", HandlesStoreError: true})
	_, err := limit.Enter(context.Background(), "")
	fmt.Println(err)
	fmt.Println(guard.FailsOpen(err))
	// Output:
	// guard: price: no decision: store unavailable
	// true
}

func ExampleStoreError_Enter() {
	r, _ := guard.NewRegistry(guard.Config{Store: &broken{down: weir.ErrUnavailable}})
	limit := r.MustGuard(guard.Resource{Name: "price", HandlesStoreError: true})
	entry, err := limit.Enter(context.Background(), "")
	var undecided *guard.StoreError
	if errors.As(err, &undecided) { // and there is no other result
		entry, err = undecided.Enter(context.Background())
	}
	if err != nil {
		return
	}
	defer entry.Exit(nil)
	fmt.Println("called", entry.Decision().Degraded)
	// Output: called local
}
