package keystats_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/policy"
)

// byClient returns a policy by client address.
func byClient(t testing.TB) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("5/m")}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// split returns the requests of tr by n nodes.
func (tr *trace) split(rng *rand.Rand, n int) []*trace {
	nodes := make([]*trace, n)
	for i := range nodes {
		nodes[i] = &trace{from: tr.from, until: tr.until, limit: tr.limit, keys: make([][]int64, len(tr.keys))}
	}
	for k, at := range tr.keys {
		favorite := rng.IntN(n) // as with a load balancer that hashes some clients
		for _, us := range at {
			i := favorite
			if k%3 == 0 {
				i = rng.IntN(n)
			}
			nodes[i].keys[k] = append(nodes[i].keys[k], us)
		}
	}
	return nodes
}

// TestMergeBounds sends random traffic of too many keys to several nodes. In the union, the true
// count of each key is from Count-Error to Count, and at most Bound for the others.
func TestMergeBounds(t *testing.T) {
	p := byClient(t)
	const admitted = 4
	for number := range uint64(4) {
		rng := rand.New(rand.NewPCG(number, 1))
		tr := randomTrace(rng)
		nodes := tr.split(rng, 1+int(number%3))
		var samples []*keystats.Sample
		for _, node := range nodes {
			s := node.play(admitted)
			if number%2 == 1 { // as from another node
				var err error
				if s, err = keystats.Decode(s.Encode()); err != nil {
					t.Fatalf("seed %d: %v", number, err)
				}
			}
			samples = append(samples, s)
		}
		s, err := keystats.Merge(samples...)
		if err != nil {
			t.Fatal(err)
		}
		from, until := s.Bounds()
		requests, denied := map[string]uint64{}, map[string]uint64{}
		for _, node := range nodes {
			for k, at := range node.keys {
				for i, us := range at {
					if us < from*1e6 || us >= until*1e6 {
						continue
					}
					if requests[fmt.Sprint(k)]++; i >= admitted {
						denied[fmt.Sprint(k)]++
					}
				}
			}
		}
		for _, n := range []int{10, 2000} {
			keys := s.Keys(p, n)
			checkBounds(t, number, n, keys.Requests, keys.Bound, requests)
			checkBounds(t, number, n, keys.Denied, keys.DeniedBound, denied)
		}
	}
}

// checkBounds compares a list of at most n keys with the true counts.
func checkBounds(t *testing.T, seed uint64, n int, list []keystats.KeyCount, bound uint64, counts map[string]uint64) {
	t.Helper()
	if len(list) < min(10, len(counts)) || len(list) > n {
		t.Errorf("seed %d: %d keys of %d, want at most %d", seed, len(list), len(counts), n)
	}
	listed := map[string]bool{}
	for _, k := range list {
		listed[k.Values[0]] = true
		if true := counts[k.Values[0]]; true > k.Count || k.Count > true+k.Error || !k.Whole {
			t.Errorf("seed %d: key %s has %d, got %d with error %d", seed, k.Values[0], true, k.Count, k.Error)
		}
	}
	for k, true := range counts {
		if !listed[k] && true > bound {
			t.Errorf("seed %d: key %s is not listed with %d, bound %d", seed, k, true, bound)
		}
	}
}

// TestMergeSample checks that samples of several nodes merge to that of one node with all their
// traffic, as far as both have the keys: membership depends on the hash only.
func TestMergeSample(t *testing.T) {
	for number := range uint64(3) {
		rng := rand.New(rand.NewPCG(number, 2))
		tr := randomTrace(rng)
		var samples []*keystats.Sample
		for _, node := range tr.split(rng, 3) {
			samples = append(samples, node.play(math.MaxInt))
		}
		one := tr.play(math.MaxInt)
		merged, err := keystats.Merge(samples[2], samples[0], nil, samples[1])
		if err != nil {
			t.Fatal(err)
		}
		theta := min(merged.Theta(), one.Theta())
		if got, want := merged.Sampled(theta), one.Sampled(theta); len(want) < 50 || !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: merged sample has %d keys, that of one node %d, or other requests", number, len(got), len(want))
		}
	}
}

// TestEncode checks that a sample survives its encoding, and that a large one still fits.
func TestEncode(t *testing.T) {
	for number := range uint64(4) {
		tr := randomTrace(rand.New(rand.NewPCG(number, 3)))
		s := tr.play(5)
		data := s.Encode()
		if len(data) > keystats.MaxSample {
			t.Fatalf("seed %d: %d bytes, want at most %d", number, len(data), keystats.MaxSample)
		}
		got, err := keystats.Decode(data)
		if err != nil {
			t.Fatalf("seed %d: %v", number, err)
		}
		if again := got.Encode(); string(again) != string(data) {
			t.Errorf("seed %d: encoded again it has %d bytes that differ, want the same %d", number, len(again), len(data))
		}
		whole, _ := s.Threshold(tr.limit)
		part, err := got.Threshold(tr.limit)
		if err != nil || whole.Enough != part.Enough || whole.RequestsTotal != part.RequestsTotal || part.ExactAbove < whole.ExactAbove {
			t.Errorf("seed %d: threshold %+v, want about %+v (%v)", number, part, whole, err)
		}
		for i := 0; i < len(data); i += 1 + len(data)/20 {
			if _, err := keystats.Decode(data[:i]); !errors.Is(err, keystats.ErrInvalid) {
				t.Errorf("seed %d: %d of %d bytes: got %v, want ErrInvalid", number, i, len(data), err)
			}
		}
	}
}

// FuzzDecode checks that what decodes is encoded to the same sample, and that estimates of it end.
func FuzzDecode(f *testing.F) {
	tr := randomTrace(rand.New(rand.NewPCG(1, 4)))
	tr.until = tr.from + 70
	f.Add(tr.play(5).Encode())
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	p := byClient(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := keystats.Decode(data)
		if err != nil {
			return
		}
		encoded := s.Encode()
		again, err := keystats.Decode(encoded)
		if err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		if string(again.Encode()) != string(encoded) {
			t.Error("the encoding of a decoded sample changes")
		}
		s.Keys(p, 10)
		if _, err := s.Threshold(weir.MustLimit("12/m")); err != nil {
			t.Error(err)
		}
		if _, err := keystats.Merge(s, again); err != nil {
			t.Error(err)
		}
	})
}

// TestTexts checks the texts of keys that clients choose: long, hashed, secret, or with control
// characters.
func TestTexts(t *testing.T) {
	p, err := policy.New(policy.Config{
		Name: "login", Limits: []weir.Limit{weir.MustLimit("5/m")},
		Key: []policy.KeyPart{{Source: policy.Header, Name: "X-User"}, {Source: policy.Header, Name: "X-Api-Key"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 80)
	for _, tc := range []struct {
		key   string
		want  []string // prefixes
		whole bool
	}{
		{"login|3:ada|-", []string{"ada", ""}, true},
		{"login|-|-", []string{"", ""}, true},
		{"login|3:ada|6:secret", []string{"ada", "sha256:"}, false},
		{"login|3:a\x1bb|-", []string{"a\uFFFDb", ""}, false},
		{"login|3:a\xffb|-", []string{"a\uFFFDb", ""}, false},
		{"login|80:" + long + "|-", []string{"xxx", ""}, false},
		{"login|3:ada|80:" + long, []string{"ada", "sha256:"}, false},
		{"login|80:" + long + "|80:" + long, []string{"xxx", "sha256:"}, false},
		{"login|#47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", []string{"#47DEQpj8"}, false},
		{"no key", []string{""}, false},
		{"", []string{""}, false},
	} {
		c := keystats.NewCollector(seed, 1_700_000_000)
		c.Add(&keystats.Record{Key: tc.key, Hash: keystats.Hash(seed, tc.key), Weight: 1, Denied: true})
		c.EndSecond(1_700_000_001, 1, 1)
		s, err := keystats.Decode(c.Sample().Encode())
		if err != nil {
			t.Fatalf("%q: %v", tc.key, err)
		}
		k := s.Keys(p, 10)
		if len(k.Denied) != 1 || len(k.Denied[0].Values) != len(tc.want) || k.Denied[0].Whole != tc.whole {
			t.Errorf("%q: %+v, want the values %q, whole: %v", tc.key, k.Denied, tc.want, tc.whole)
			continue
		}
		got := k.Denied[0]
		for i, value := range got.Values {
			if !strings.HasPrefix(value, tc.want[i]) || len(value) > 64 || strings.Contains(value, "secret") {
				t.Errorf("%q: value %d is %q, want %q…", tc.key, i, value, tc.want[i])
			}
		}
		key, ok := s.Key(func(id string) bool { return id == got.ID })
		if whole := len(tc.key) < 64; got.ID != policy.KeyID(tc.key) || strings.Contains(tc.key, "|") && (ok != whole || ok && key != tc.key) {
			t.Errorf("%q: Key(%s) = %q, %v", tc.key, got.ID, key, ok)
		}
	}
}
