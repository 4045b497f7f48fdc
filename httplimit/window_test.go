package httplimit_test

import (
	"fmt"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
)

func ExampleWindow() {
	for _, text := range []string{"10/s burst 20", "5000/24h", "3/s burst 4", "20 concurrency", "100/month calendar Asia/Shanghai"} {
		fmt.Println(httplimit.Window(weir.MustLimit(text)), text)
	}
	// Output:
	// 2 10/s burst 20
	// 86400 5000/24h
	// 0 3/s burst 4
	// 0 20 concurrency
	// 0 100/month calendar Asia/Shanghai
}
