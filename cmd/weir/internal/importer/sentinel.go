package importer

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/floodweir/weir"
)

// Sentinel imports an array of rules of Sentinel's dashboard and data sources, or of
// sentinel-golang: in JSON, in YAML, or in manifests of Kubernetes.
func Sentinel(name string, data []byte) (*Result, error) { return importRules(name, data, false) }

func importRules(name string, data []byte, program bool) (*Result, error) {
	next := "set the upstreams (gateway.routes), or use the names of policies in the HTTP API."
	if program {
		next = "load the file with weirfile and pass its functions to guard.Config."
	}
	s := &sentinel{file: name, program: program, named: map[string]*function{}, builder: newBuilder(
		"Generated from "+filepath.Base(name)+" by `weir import sentinel`. Read the differences, then "+next,
		"",
		"differs: Sentinel counts in each process. Weir does so with store: memory; with a Redis, all processes share one count.",
	)}
	if !utf8.Valid(data) {
		return nil, &Error{File: name, Want: "want text in UTF-8"}
	}
	rules, err := s.read(data)
	if err != nil {
		return nil, err
	}
	for i := range rules {
		s.rule(&rules[i])
	}
	for _, f := range s.functions {
		s.addFunction(f.at, f.from, f.name, f.fields(), f.notes)
	}
	return s.result(), nil
}

// A sentinel imports one file of rules.
type sentinel struct {
	*builder
	file      string
	program   bool // limits of names are rules of functions
	functions []*function
	named     map[string]*function // by resource
}

// administrative lists fields that do not affect the limit.
var administrative = []string{"id", "app", "ip", "port", "gmtCreate", "gmtModified", "comment", "description"}

var (
	flowFields  = []string{"resource", "limitApp", "grade", "count", "strategy", "refResource", "controlBehavior", "warmUpPeriodSec", "maxQueueingTimeMs", "clusterMode", "clusterConfig", "regex"}
	paramFields = []string{"resource", "limitApp", "grade", "count", "paramIdx", "controlBehavior", "maxQueueingTimeMs", "burstCount", "durationInSec", "paramKey", "paramFlowItemList", "clusterMode", "clusterConfig", "regex"}
)

// rule creates the policy of a rule, or lists it.
func (s *sentinel) rule(r *rule) {
	if r.isGo() {
		r.source = r.String()
		why := s.fromGo(r)
		if r.faults != nil {
			why = strings.Join(r.faults, "; ")
		}
		if why != "" {
			s.list(r.place, r.String(), "%s", why)
			return
		}
	}
	switch {
	case r.has("timeWindow", "slowRatioThreshold", "minRequestAmount", "passCount"):
		s.degrade(r)
		return
	case r.has("highestSystemLoad", "highestCpuUsage", "avgRt", "maxThread", "qps"):
		s.system(r)
		return
	case r.has("resourceMode", "intervalSec", "paramItem"):
		s.list(r.place, r.String(), "%s", noGateway)
		return
	case r.has("resource", "limitApp") && r.has("strategy") && !r.has("count", "grade", "controlBehavior"):
		s.list(r.place, r.String(), "%s", noAuthority)
		return
	}
	known := flowFields
	if r.has("paramIdx") {
		known = paramFields
	}
	s.unknown(r, known)
	d := draft{at: r.place, from: r.String()}
	resource := r.text("resource", "")
	why := s.flow(r, &d, resource)
	switch {
	case r.faults != nil:
		why = strings.Join(r.faults, "; ")
	case why == "" && d.function:
		if why = s.calls(r, &d, resource); why == "" {
			return
		}
	}
	if why != "" {
		s.list(r.place, r.String(), "%s", why)
		return
	}
	d.name = resource
	s.add(d)
}

// flow sets a policy by a rule, or returns why it cannot be expressed.
func (s *sentinel) flow(r *rule, d *draft, resource string) (why string) {
	count := r.count()
	strategy, grade := r.number("strategy", 0), r.number("grade", 1)
	app := r.text("limitApp", "default")
	switch {
	case resource == "":
		return "Sentinel ignores a rule without a resource"
	case r.flag("regex"):
		return "the resource is a regular expression: write it as match.where"
	case strategy == 1:
		return fmt.Sprintf("it limits when %s is busy (strategy 1), and a policy counts only its own requests", short(r.text("refResource", "another resource")))
	case strategy == 2:
		return fmt.Sprintf("it limits calls through %s (strategy 2), which is not part of a request", short(r.text("refResource", "another resource")))
	case strategy != 0:
		return "want a strategy of 0, 1 or 2"
	case app == "other":
		return `limitApp "other" is every caller that no other rule names: write it as match.where`
	case grade != 0 && grade != 1:
		return "want a grade of 0 (threads) or 1 (QPS)"
	case count.Sign() < 0:
		return "Sentinel ignores a rule with a count below 0"
	}
	s.resource(d, resource)
	if app != "default" && app != "" {
		d.headers = append(d.headers, [2]string{"S-User", app})
		d.differs("match", "Sentinel finds the caller with the application's RequestOriginParser; here it is the header S-User. Only a proxy in front may set it.")
	}
	s.cluster(r, d)
	if r.has("paramIdx") {
		return s.param(r, d, count, grade)
	}
	d.key = append(d.key, "const:all")
	switch {
	case r.denies(count, grade):
		d.block = true
		whole(d, count)
		return ""
	case grade == 0:
		threads(d, count)
		return ""
	}
	return s.qps(r, d, count)
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

// resource sets the requests that a resource matches.
func (s *sentinel) resource(d *draft, resource string) {
	path := resource
	if method, rest, ok := strings.Cut(resource, ":"); ok && slices.Contains(methods, method) && strings.HasPrefix(rest, "/") {
		d.methods, path = []string{method}, rest
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "%;?#\\") {
		d.methods = nil
		if d.function = s.program; d.function {
			return
		}
		d.headers = append(d.headers, [2]string{"X-Resource", resource})
		d.differs("match", `the resource is a name in a program, not part of a request; here the header X-Resource has it. A program can request {"policy": NAME} from the HTTP API instead. For a Go program: --functions.`)
		return
	}
	if method := d.methods; method != nil && method[0] == "GET" {
		d.differs("match", "GET matches HEAD too.")
	}
	if rest, ok := strings.CutSuffix(path, "/**"); ok {
		path = rest + "/*"
	} else if strings.Contains(strings.TrimSuffix(path, "/*"), "*") {
		segments := strings.Split(path, "/")
		for i, one := range segments[:len(segments)-1] {
			if one == "*" {
				segments[i] = fmt.Sprintf("{any%d}", i)
			}
		}
		path = strings.Join(segments, "/")
	}
	if path != "/" {
		path = strings.TrimRight(path, "/")
	}
	d.paths = []string{path}
}

// cluster adds notes about cluster mode.
func (s *sentinel) cluster(r *rule, d *draft) {
	if !r.flag("clusterMode") {
		return
	}
	var c struct {
		ThresholdType int `json:"thresholdType"`
	}
	if r.has("clusterConfig") && json.Unmarshal(r.fields["clusterConfig"], &c) != nil {
		r.fault("clusterConfig", "an object")
	}
	if c.ThresholdType == 0 {
		d.differs("limits", "the count is that of each instance (thresholdType 0), and Sentinel multiplies it by their number: do so here, with a store that all share.")
		return
	}
	d.differs("limits", "the count is that of the whole cluster (thresholdType 1): it needs a store that all processes share. There is no token server; on_store_error is the degraded mode.")
}

// denies reports whether a flow rule denies every request: its count is less than one request,
// and it is no queue, which spaces requests by more than a period.
func (r *rule) denies(count *big.Rat, grade int64) bool {
	queue := grade == 1 && r.number("controlBehavior", 0) >= 2
	return count.Sign() == 0 || count.Cmp(big.NewRat(1, 1)) < 0 && !queue
}

// whole returns a count rounded down to an integer, with a note if that matters.
func whole(d *draft, count *big.Rat) int64 {
	n := new(big.Int).Quo(count.Num(), count.Denom())
	if !count.IsInt() {
		d.notes = append(d.notes, note{"limits", fmt.Sprintf("a count of %s admits %s, as Sentinel counts whole requests.", decimal(count), n)})
	}
	return n.Int64()
}

func decimal(r *big.Rat) string {
	s := strings.TrimRight(r.FloatString(9), "0")
	return strings.TrimSuffix(s, ".")
}

func threads(d *draft, count *big.Rat) {
	d.limits = []string{fmt.Sprintf("%d concurrency", whole(d, count))}
	d.differs("limits", "this counts concurrent requests, not threads. A slot that is not renewed is free after a minute.")
}

// qps sets a limit of requests per second.
func (s *sentinel) qps(r *rule, d *draft, count *big.Rat) string {
	const coldFactor = 3
	queue, warmup := r.number("maxQueueingTimeMs", 500), r.number("warmUpPeriodSec", 10)
	switch behavior := r.number("controlBehavior", 0); behavior {
	case 0:
		d.limits = []string{fmt.Sprintf("%d/%s sliding_window segments 2", whole(d, count), r.period())}
		d.notes = append(d.notes, note{"limits", "as Sentinel counts: in two halves of the period."})
		return ""
	case 1, 3:
		n := whole(d, count)
		switch {
		case n == 0:
			return fmt.Sprintf("a queue with a warm-up and a count of %s, and Weir warms up whole rates", decimal(count))
		case r.period() != "s":
			return fmt.Sprintf("a warm-up with a statIntervalInMs of %d, and Weir warms up rates per second", r.interval)
		case warmup < 1 || warmup > math.MaxInt32:
			return "want a warmUpPeriodSec from 1 on"
		}
		d.limits = []string{fmt.Sprintf("%d/s warmup %ds", n, warmup)}
		d.differs("limits", "a bucket of %d that starts at a third of the rate (coldFactor %d) and warms up as Guava's; Sentinel compares the rate of the last second.", n, coldFactor)
		if behavior == 3 {
			if queue < 0 || queue > 60_000 {
				return "want a maxQueueingTimeMs from 0 to 60000, which is the longest wait of a policy"
			}
			d.limits = []string{fmt.Sprintf("%d/s burst 1 warmup %ds", n, warmup)}
			if queue > 0 {
				d.wait = fmt.Sprintf("%dms", queue)
			}
			d.differs("limits", "a request that is too early waits for its token for up to maxQueueingTimeMs (on_denied.wait); Sentinel spaces requests by whole milliseconds.")
		}
		return ""
	case 2:
		if queue < 0 || queue > math.MaxInt32 {
			return "want a maxQueueingTimeMs from 0 on"
		}
		if r.interval > 0 {
			count.Mul(count, big.NewRat(1000, r.interval))
		}
		return pace(d, count, queue)
	}
	return "want a controlBehavior of 0, 1, 2 or 3"
}

// pace sets a queue in which a request waits for at most queue milliseconds.
func pace(d *draft, rate *big.Rat, queue int64) string {
	// A count of num/denom per second is num in denom seconds.
	if !rate.Num().IsInt64() || !rate.Denom().IsInt64() || rate.Denom().Int64() > 1_000_000_000 {
		return "want a count with fewer digits"
	}
	waiters := new(big.Int).Mul(rate.Num(), big.NewInt(queue))
	waiters.Quo(waiters, new(big.Int).Mul(rate.Denom(), big.NewInt(1000)))
	text := fmt.Sprintf("%s/%s leaky_bucket", rate.Num(), perSeconds(rate.Denom().Int64()))
	if waiters.Sign() > 0 {
		text += fmt.Sprintf(" burst %s queue", waiters)
	}
	d.limits = []string{text}
	d.differs("limits", "requests start one interval apart, to the microsecond; Sentinel rounds the interval to a whole millisecond, and above 1,000 per second to 0. Up to %s wait, which is the rate times maxQueueingTimeMs.", waiters)
	return ""
}

func perSeconds(n int64) string {
	if n == 1 {
		return "s"
	}
	return fmt.Sprintf("%ds", n)
}

// param sets a limit for each value of a parameter.
func (s *sentinel) param(r *rule, d *draft, count *big.Rat, grade int64) string {
	index, burst, seconds := r.number("paramIdx", 0), r.number("burstCount", 0), r.number("durationInSec", 1)
	queue, behavior := r.number("maxQueueingTimeMs", 0), r.number("controlBehavior", 0)
	if burst < 0 || seconds < 1 || seconds > math.MaxInt32 || burst > math.MaxInt32 || queue < 0 || queue > math.MaxInt32 {
		return "want a burstCount from 0, a durationInSec from 1 and a maxQueueingTimeMs from 0 on"
	}
	name := strconv.FormatInt(index, 10)
	if key := r.text("paramKey", ""); key != "" {
		name = key
	}
	d.key = append(d.key, "header:X-Param-"+name)
	if d.function {
		d.differs("key", "the key of a call is parameter %s: pass it to guard.Enter.", name)
	} else {
		d.differs("key", `parameter %s of a call is not part of a request; here it is the header X-Param-%s. A program can request {"policy": NAME, "key": [VALUE]} from the HTTP API instead.`, name, name)
	}
	why := ""
	limit := func(n int64) string {
		one := draft{}
		switch {
		case n == 0:
			return blocks
		case grade == 0:
			return fmt.Sprintf("%d concurrency", n)
		case behavior == 2:
			why = pace(&one, big.NewRat(n, seconds), queue)
			return strings.Join(one.limits, "")
		}
		text := fmt.Sprintf("%d/%s interval", n, perSeconds(seconds))
		if burst > 0 {
			text += fmt.Sprintf(" burst %d", n+burst)
		}
		return text
	}
	n := whole(d, count)
	d.limits, d.block = []string{limit(n)}, n == 0
	switch {
	case why != "":
		return why
	case d.block:
		d.differs("limits", "requests without the parameter are blocked too.")
	case grade == 1 && behavior == 0:
		d.notes = append(d.notes, note{"limits", "as Sentinel refills: all tokens at the end of a period."})
	case grade == 1 && behavior != 2:
		return "want a controlBehavior of 0 or 2 with a parameter"
	}
	var items []struct {
		Object    string      `json:"object"`
		Count     json.Number `json:"count"`
		ClassType string      `json:"classType"`
	}
	if r.has("paramFlowItemList") && json.Unmarshal(r.fields["paramFlowItemList"], &items) != nil {
		r.fault("paramFlowItemList", "a list of object, count and classType")
	}
	for _, i := range items {
		n, err := i.Count.Int64()
		if err != nil || n < 0 || strings.Contains(i.Object, "*") || i.Object == "" {
			s.list(r.place, fmt.Sprintf("object %q, count %s of %s", short(i.Object), i.Count, r), "want a value without *, and a whole count from 0 on")
			continue
		}
		if _, err := weir.ParseLimit(limit(n)); err != nil && n > 0 {
			s.list(r.place, fmt.Sprintf("object %q, count %s of %s", short(i.Object), i.Count, r), "%v", err)
			continue
		}
		d.overrides = append(d.overrides, override{[]string{i.Object}, limit(n)})
	}
	return why
}
