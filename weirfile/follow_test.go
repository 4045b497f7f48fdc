package weirfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/weirfile"
)

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	limits := func(text string) string {
		return "policies: [{ name: a, key: client.ip, limits: " + text + " }]"
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		tell := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, text)
		}
		f := weirfile.Follower{
			Path: path, Every: time.Second,
			Adopt: func(f *weirfile.File) error {
				l := fmt.Sprint(f.Policies.Policy("a").Config().Limits)
				if strings.HasPrefix(l, "[13/s") {
					return errors.New("not thirteen")
				}
				tell(l)
				return nil
			},
			Trouble: func(err error) { tell(fmt.Sprint("trouble: ", err)) },
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() {}, "trouble: weirfile: open " + path + ": no such file or directory"},
			{func() {}, ""},
			{func() { write(limits("1/s")) }, "[1/s burst 1]; trouble: <nil>"},
			{func() {}, ""},
			{func() { write(limits("2/s")) }, "[2/s burst 2]"},
			{func() { write(limits("2/x")) }, "trouble: " + path + `:1:47: policies[0].limits[0]: "2/x"`},
			{func() {}, ""},
			{func() { write(limits("13/s")) }, "[2/s burst 2]; trouble: not thirteen"},
			{func() { write(limits("3/s")) }, "[3/s burst 3]; trouble: <nil>"},
			{func() { os.Remove(path) }, "trouble: weirfile: open " + path + ": no such file or directory"},
			{func() { write(limits("3/s")) }, "[3/s burst 3]; trouble: <nil>"},
		} {
			step.do()
			time.Sleep(time.Second)
			synctest.Wait()
			mu.Lock()
			got := strings.Join(said, "; ")
			said = nil
			mu.Unlock()
			if got != step.want && !(strings.HasPrefix(step.want, "trouble: "+path) && strings.HasPrefix(got, step.want)) {
				t.Errorf("Trouble got %q, want %q", got, step.want)
			}
		}
		why := errors.New("enough")
		cancel(why)
		if err := <-done; err != why {
			t.Errorf("Run = %v, want %v", err, why)
		}
	})
	if err := new(weirfile.Follower).Run(context.Background()); err == nil {
		t.Error("Run of nothing = nil, want an error")
	}
}
