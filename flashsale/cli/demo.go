package cli

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"os"
	"time"

	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/command"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/spf13/cobra"
)

// The sale of the demo.
const (
	demoMerchant = "demo"
	demoTitle    = "Mechanical keyboard, walnut 胡桃木机械键盘"
	demoStock    = 20
	demoPrice    = 19900

	demoListPrice = 39900
	demoPerUser   = 2 // also in one order
)

//go:embed keyboard.jpg
var demoPicture []byte // an illustration drawn for the demo

func (w *environment) demo() *cobra.Command {
	var c run.Config
	var in, pay time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start a sale, without any server",
		Long: "Start a sale that opens in seconds, without any server, and print the two\n" +
			"addresses to open. Data is in a temporary directory, which is removed at the end, or in\n" +
			"the directory of --data.",
		Args: command.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in < 0 || in > 24*time.Hour {
				return command.Usagef("--in %v: want 0s to 24h", in)
			}
			if pay < time.Second || pay > 24*time.Hour {
				return command.Usagef("--pay-within %v: want 1s to 24h", pay)
			}
			if c.Data == "" {
				dir, err := os.MkdirTemp("", "flashsale-demo-")
				if err != nil {
					return err
				}
				defer os.RemoveAll(dir)
				c.Data = dir
			}
			c.Log = w.logger()
			c.Mock = true
			s, err := run.Start(cmd.Context(), c)
			if err != nil {
				return err
			}
			password := rand.Text()
			opened, err := w.open(cmd, s, password, in, pay)
			if err != nil {
				s.Stop()
				return err
			}
			fmt.Fprintf(w.stdout, `A flash sale of %d units opens at %s.

  buyers:     %s/sales/%s
  merchants:  %s  (name %s, password %s)

Open the first in two browsers, and the second beside them. Ctrl-C ends it.
`, opened.Stock, opened.StartsAt.Local().Format(time.TimeOnly), s.ShopURL, opened.ID, s.OfficeURL, demoMerchant, password)
			return wait(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Data, "data", "", "the `DIRECTORY` for all data (temporary by default)")
	f.StringVar(&c.Shop, "shop", run.DefaultShop, "the address for buyers, `HOST:PORT`")
	f.StringVar(&c.Office, "office", run.DefaultOffice, "the address for merchants, `HOST:PORT`")
	f.DurationVar(&in, "in", 15*time.Second, "when the sale opens")
	f.DurationVar(&pay, "pay-within", 2*time.Minute, "how long a buyer has to pay")
	return cmd
}

// open creates the merchant and the sale of the demo.
func (w *environment) open(cmd *cobra.Command, s *run.System, password string, in, pay time.Duration) (sale.Sale, error) {
	ctx := cmd.Context()
	if err := s.AddMerchant(ctx, demoMerchant, password); err != nil {
		return sale.Sale{}, err
	}
	start := time.Now().Add(in).Truncate(time.Millisecond)
	drafted, err := s.Merchants.Create(ctx, demoMerchant, "", sale.Draft{
		SKU: "keyboard-walnut", Title: demoTitle, Price: demoPrice, Currency: "CNY",
		Stock: demoStock, PerUser: demoPerUser, MaxQuantity: demoPerUser, StartsAt: start, EndsAt: start.Add(time.Hour),
		Queue: sale.Fifo, PayWithin: pay,
	})
	if err != nil {
		return sale.Sale{}, err
	}
	if err := describe(ctx, s, drafted.ID); err != nil {
		return sale.Sale{}, err
	}
	return s.Merchants.Expose(ctx, demoMerchant, drafted.ID)
}

// describe adds the picture, the description and the original price to the sale of the demo.
func describe(ctx context.Context, s *run.System, id string) error {
	m, ok := s.Merchants.(catalogue.Merchants)
	if !ok {
		return fmt.Errorf("cli: demo: got merchants of type %T, want catalogue.Merchants", s.Merchants)
	}
	shown, err := m.Copier.Upload(ctx, id, demoPicture, catalogue.Text{
		ZH: "胡桃木外壳的机械键盘，米色键帽，两个红色按键，旁边有一杯咖啡", EN: "A mechanical keyboard in a walnut case with cream keys, two of them red, beside a cup of coffee",
	})
	if err != nil {
		return err
	}
	shown.Title = catalogue.Text{ZH: "胡桃木机械键盘", EN: "Mechanical keyboard, walnut"}
	shown.Description = catalogue.Text{
		ZH: "61 键，热插拔轴体，PBT 键帽。外壳由整块胡桃木加工而成，每一把纹理都不同。",
		EN: "61 keys, hot-swappable switches and PBT keycaps. The case is milled from one block of walnut, so no two look the same.",
	}
	shown.ListPrice = demoListPrice
	return m.Copier.Store.SetProduct(ctx, id, shown, time.Now())
}
