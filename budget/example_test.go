package budget_test

import (
	"fmt"
	"io"
	"strings"

	"github.com/floodweir/weir/budget"
)

func Example() {
	prices, err := budget.NewPrices("", budget.Price{Models: []string{"m1"}, Input: "1.25", Cached: "0.125", Output: "10"})
	if err != nil {
		panic(err)
	}
	meter, err := budget.NewMeter(budget.MeterConfig{Unit: budget.USD, Prices: prices})
	if err != nil {
		panic(err)
	}

	body := `{"object":"chat.completion","model":"m1","usage":{"prompt_tokens":100,"completion_tokens":50,"prompt_tokens_details":{"cached_tokens":60}}}`
	r := budget.NewReader(budget.Auto, "application/json", "", nil)
	io.Copy(r, strings.NewReader(body))
	r.Close()
	usage, _ := r.Usage()
	cost, _ := meter.Cost(usage)
	fmt.Println(usage.Input, usage.Cached, usage.Output, cost)
	// Output: 40 60 50 558
}
