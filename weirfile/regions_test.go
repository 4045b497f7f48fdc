package weirfile_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/weirfile"
)

// TestRegions checks how regions of a file and of its policies are read.
func TestRegions(t *testing.T) {
	f := parse(t, `
regions:
  here: us
  global: redis://g:6379/0
  lease: 3s
  members:
    - { name: eu, part: 40, store: "redis://a:6379/0" }
    - { name: us, part: 30, store: memory }
    - { name: ap, part: auto }
policies:
  - { name: divided, key: client.ip, limits: [1000/s, 100/m sliding_window] }
  - { name: each, key: client.ip, limits: 100/m fixed_window, regions: each }`)
	want := &weirfile.Regions{
		Here: "us", Global: "redis://g:6379/0", Lease: 3 * time.Second,
		Members: []weirfile.Region{{Name: "eu", Part: 40, Store: "redis://a:6379/0"}, {Name: "us", Part: 30, Store: "memory"}, {Name: "ap"}},
	}
	if !reflect.DeepEqual(f.Regions, want) || f.Regions.Rest() != 30 || strings.Join(f.Regions.Names(), " ") != "eu us ap" {
		t.Errorf("regions %+v, rest %d, want %+v, 30", f.Regions, f.Regions.Rest(), want)
	}
	if us, ok := f.Regions.Region("us"); !ok || us.Part != 30 {
		t.Errorf("region us = %+v, %v", us, ok)
	}
	if _, ok := f.Regions.Region("cn"); ok {
		t.Error("a region that is not there")
	}
	for key, each := range map[string]bool{"divided|1": false, "each|1": true, "user:42": false} {
		if got := f.Policies.EachRegion(key); got != each {
			t.Errorf("each region has %s: %v, want %v", key, got, each)
		}
	}
	if len(f.Notes) != 0 {
		t.Errorf("notes %q, want none", f.Notes)
	}
	f = parse(t, `regions: { members: [{ name: eu, part: 40 }, { name: us, part: 30 }] }`)
	if f.Regions.Rest() != 0 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "30 percent of each limit are unused") {
		t.Errorf("without global: rest %d, notes %q, want 0 and one about the unused part", f.Regions.Rest(), f.Notes)
	}
}
