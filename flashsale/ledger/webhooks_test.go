package ledger_test

import (
	"testing"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/verify/webhooktest"
)

func TestWebhooks(t *testing.T) {
	webhooktest.Run(t, func(t *testing.T) webhooktest.Ledger { return open(t, ledger.Config{}) })
}
