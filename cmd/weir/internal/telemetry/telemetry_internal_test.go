package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestErrorLog checks that an error that lasts for an hour is logged sixty times.
func TestErrorLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newErrorLog(slog.New(slog.NewTextHandler(&log, nil)), "traces")
		r.log(nil)
		for range 3600 {
			r.log(errors.New("connection refused"))
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 60 || !strings.HasSuffix(lines[59], `level=WARN msg="telemetry not exported" signal=traces error="connection refused" suppressed=59`) {
			t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
		}
	})
}
