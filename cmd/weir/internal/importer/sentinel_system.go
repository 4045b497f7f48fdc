package importer

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/floodweir/weir/weirfile"
)

// This file converts system rules: to the system rules of the gateway by load, CPU and requests
// in flight, and to a policy for all requests by rate.

// noAverage is the reason for a threshold of the average response time.
const noAverage = "no rule here compares the average response time of all requests: adaptive of a route limits what is in progress by its latency"

var systemFields = []string{"highestSystemLoad", "highestCpuUsage", "avgRt", "maxThread", "qps", "limitApp"}

// systemRules are the thresholds of all system rules of a file, of which the lowest counts.
type systemRules struct {
	load, cpu, threads int64 // 0: none
	from               []string
	notes              []string
}

func (y *systemRules) differs(format string, args ...any) {
	text := "differs: " + fmt.Sprintf(format, args...)
	for _, n := range y.notes {
		if n == text {
			return
		}
	}
	y.notes = append(y.notes, text)
}

// text returns the section, or "" without rules.
func (y *systemRules) text() string {
	if y.load+y.cpu+y.threads == 0 {
		return ""
	}
	var s strings.Builder
	for _, f := range y.from {
		comment(&s, "", f)
	}
	comment(&s, "", "differs: Sentinel counts inbound entries, these rules all requests of the gateway. exempt names those that pass, such as health checks.")
	for _, n := range y.notes {
		comment(&s, "", n)
	}
	s.WriteString("system:\n")
	shed := int64(80) // percent of inflight for requests without a priority
	if y.cpu > 0 {
		fmt.Fprintf(&s, "  cpu: %d\n", y.cpu)
		shed = y.cpu
	}
	if y.load > 0 {
		fmt.Fprintf(&s, "  load: %d\n", y.load)
	}
	if y.threads > 0 {
		// The least number of which shed percent, rounded down, are threads.
		n := (100*y.threads + shed - 1) / shed
		comment(&s, "  ", fmt.Sprintf("Requests without a priority get %d %% of it, which is %d.", shed, y.threads))
		fmt.Fprintf(&s, "  inflight: %d\n", n)
	}
	return s.String()
}

// lowest sets a threshold to n if it is the lowest.
func lowest(threshold *int64, n int64) {
	if *threshold == 0 || n < *threshold {
		*threshold = n
	}
}

// system converts the thresholds of a system rule, and lists those that have no equivalent. A
// negative threshold is not set.
func (s *sentinel) system(r *rule) {
	s.unknown(r, systemFields)
	for _, field := range systemFields[:5] {
		r.rational(field, new(big.Rat))
	}
	if r.faults != nil {
		s.list(r.place, "system rule", "%s", strings.Join(r.faults, "; "))
		return
	}
	for _, field := range systemFields[:5] {
		if !r.has(field) || r.rational(field, nil).Sign() < 0 {
			continue
		}
		value, what := r.rational(field, nil), fmt.Sprintf("%s %s", field, r.fields[field])
		if r.source != "" {
			what = r.source
		}
		if why := s.threshold(r, field, value, what); why != "" {
			s.list(r.place, what, "%s", why)
		}
	}
}

// threshold converts one threshold, or returns why there is no equivalent.
func (s *sentinel) threshold(r *rule, field string, value *big.Rat, what string) (why string) {
	y := s.systemRules
	rules := *y
	rules.from, rules.notes = append([]string(nil), y.from...), append([]string(nil), y.notes...)
	switch field {
	case "avgRt":
		return noAverage
	case "qps":
		s.forAll(r, what, value)
		return ""
	case "maxThread":
		if value.Sign() == 0 && r.source != "" {
			s.forAll(r, what, value)
			return ""
		}
		// Sentinel admits a request while maxThread others run or fewer, sentinel-golang while fewer do.
		threads := floor(value)
		if r.source == "" || !value.IsInt() {
			threads++
		}
		lowest(&rules.threads, threads)
		rules.differs("these are concurrent requests until the end of the response, not threads.")
		if r.source == "" {
			rules.differs("Sentinel admits a request while maxThread others run, so one more than maxThread can run.")
		}
	case "highestSystemLoad":
		if floor(value) < 1 {
			return "system.load is a whole number from 1 on"
		}
		lowest(&rules.load, floor(value))
		if !value.IsInt() {
			rules.differs("the load %s is rounded down: system.load is a whole number.", decimal(value))
		}
		if r.source != "" && !r.bbr {
			rules.differs("above the load, sentinel-golang rejects every request without BBR. These rules admit what the process can complete, as with BBR.")
		}
	case "highestCpuUsage":
		percent := new(big.Rat).Mul(value, big.NewRat(100, 1))
		switch {
		case r.source != "":
			return "sentinel-golang measures CPU as a fraction or, by version, in percent of one core: write system.cpu as percent of what the process may use"
		case value.Cmp(big.NewRat(1, 1)) > 0:
			return "Sentinel ignores a highestCpuUsage above 1"
		case floor(percent) == 100:
			return "the CPU usage is never above 1, so it rejects nothing"
		case floor(percent) == 0:
			return "system.cpu is a whole percentage from 1 on"
		}
		lowest(&rules.cpu, floor(percent))
		if !percent.IsInt() {
			rules.differs("the CPU usage of %s %% is rounded down: system.cpu is a whole percentage.", decimal(percent))
		}
		rules.differs("above the CPU usage, Sentinel rejects every request. These rules admit what the process can complete. They measure its own usage, of what it may use; Sentinel takes that of the machine if it is higher.")
	}
	rules.from = append(rules.from, r.place.String()+": system rule, "+what)
	if _, err := weirfile.Parse("system", []byte(rules.text())); err != nil {
		return "not a valid rule: " + reason(err)
	}
	*y = rules
	return ""
}

// floor returns a number rounded down.
func floor(r *big.Rat) int64 { return new(big.Int).Quo(r.Num(), r.Denom()).Int64() }

// forAll creates a policy for all requests.
func (s *sentinel) forAll(r *rule, what string, count *big.Rat) {
	d := draft{at: r.place, from: "system rule, " + what, name: "system", key: []string{"const:all"}}
	if n := whole(&d, count); n == 0 {
		d.block = true
	} else {
		d.limits = []string{fmt.Sprintf("%d/s sliding_window segments 2", n)}
	}
	d.differs("match", "Sentinel limits inbound entries; this limits all requests.")
	s.add(d)
}
