package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// This file reads the rules of sentinel-golang as those of Sentinel in Java, which have other
// fields for the same.

// goWords are the names of enumerated values, which the Kubernetes data source uses.
var goWords = map[string]int64{
	"Direct": 0, "WarmUp": 1, "MemoryAdaptive": 2, "Reject": 0, "Throttling": 1,
	"CurrentResource": 0, "AssociatedResource": 1,
	"NoAdaptive": -1, "BBR": 1, "SlowRequestRatio": 0, "ErrorRatio": 1, "ErrorCount": 2, "Concurrency": 0, "QPS": 1,
}

// word reads an enumerated value: a number or its name.
func (r *rule) word(name string) int64 {
	var text string
	if r.has(name) && json.Unmarshal(r.fields[name], &text) == nil {
		if n, ok := goWords[text]; ok {
			return n
		}
	}
	return r.number(name, 0)
}

// set replaces a field by a number.
func (r *rule) set(name string, n int64) { r.put(name, json.RawMessage(strconv.FormatInt(n, 10))) }

// put sets a field.
func (r *rule) put(name string, value json.RawMessage) {
	if r.fields[name] == nil {
		r.names = append(r.names, name)
	}
	r.fields[name] = value
}

// rename renames fields, from old to new names in pairs.
func (r *rule) rename(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		value := r.fields[pairs[i]]
		r.drop(pairs[i])
		if value != nil {
			r.put(pairs[i+1], value)
		}
	}
}

// drop removes fields without a meaning for a limit.
func (r *rule) drop(names ...string) {
	for _, name := range names {
		delete(r.fields, name)
		r.names = slices.DeleteFunc(r.names, func(n string) bool { return n == name })
	}
}

// isGo reports whether r is a rule of sentinel-golang.
func (r *rule) isGo() bool {
	return r.kind != "" || r.has("threshold", "tokenCalculateStrategy", "metricType", "triggerCount", "adaptiveStrategy", "paramKey")
}

// fromGo turns a rule of sentinel-golang into one of Sentinel. It returns why that is not
// possible.
func (s *sentinel) fromGo(r *rule) (why string) {
	switch kind := r.kind; {
	case kind == "SystemRules" || kind == "" && (r.has("triggerCount", "adaptiveStrategy") || r.has("metricType") && !r.has("resource")):
		return r.systemFromGo()
	case kind == "CircuitBreakerRules" || kind == "" && r.has("retryTimeoutMs", "maxAllowedRtMs", "minRequestAmount", "statIntervalMs"):
		grade := r.word("strategy")
		if kind != "" && grade != 2 {
			r.percent("threshold")
		}
		r.rename("strategy", "grade", "threshold", "count")
		r.set("grade", grade)
		if grade == 0 {
			r.rename("count", "slowRatioThreshold", "maxAllowedRtMs", "count")
		}
		if !r.has("timeWindow") {
			r.set("timeWindow", 0)
		}
		if !r.has("minRequestAmount") {
			r.set("minRequestAmount", 0)
		}
		r.drop("maxAllowedRtMs")
	case kind == "HotspotRules" || kind == "" && r.has("paramIndex", "paramKey", "specificItems", "paramsMaxCapacity", "durationInSec"):
		return r.hotspotFromGo()
	case kind == "IsolationRules" || kind == "" && r.has("metricType"):
		r.set("grade", 0)
		r.rename("threshold", "count")
		r.drop("metricType")
		if r.has("count") && r.count().Sign() == 0 {
			return "sentinel-golang ignores an isolation rule with a threshold of 0"
		}
	default:
		if kind != "" && r.has("statIntervalInMs") {
			s.list(r.place, fmt.Sprintf("statIntervalInMs %s of %s", r.fields["statIntervalInMs"], r), "the data source for Kubernetes ignores it")
			r.drop("statIntervalInMs")
		}
		return r.flowFromGo()
	}
	return ""
}

func (r *rule) systemFromGo() string {
	metric := r.metric()
	if metric < 0 || metric >= int64(len(systemMetrics)) {
		return "want a metricType from 0 to 4"
	}
	if metric == 0 || metric == 4 {
		if r.kind != "" {
			r.percent("triggerCount")
		}
		r.bbr = r.word("strategy")+r.word("adaptiveStrategy") == 1
	}
	if !r.has("triggerCount") {
		r.set("triggerCount", 0)
	}
	r.rename("triggerCount", systemMetrics[metric].field)
	r.drop("metricType", "strategy", "adaptiveStrategy")
	return ""
}

func (r *rule) hotspotFromGo() string {
	var items []struct {
		Value     string      `json:"valStr"`
		Threshold json.Number `json:"threshold"`
	}
	if r.has("specificItems") && json.Unmarshal(r.fields["specificItems"], &items) != nil {
		r.fault("specificItems", "a list of valKind, valStr and threshold")
	}
	type item struct {
		Object string      `json:"object"`
		Count  json.Number `json:"count"`
	}
	list := []item{}
	for _, i := range items {
		list = append(list, item{i.Value, i.Threshold})
	}
	text, _ := json.Marshal(list)
	grade, behavior := r.word("metricType"), r.word("controlBehavior")
	r.set("grade", grade)
	r.set("controlBehavior", 2*behavior)
	r.rename("threshold", "count", "paramIndex", "paramIdx")
	r.put("paramFlowItemList", text)
	r.drop("specificItems", "metricType", "paramsMaxCapacity")
	if !r.has("paramIdx") {
		r.set("paramIdx", 0)
	}
	return ""
}

func (r *rule) flowFromGo() string {
	strategy, behavior := r.word("tokenCalculateStrategy"), r.word("controlBehavior")
	switch {
	case strategy == 2:
		return noMemory
	case strategy < 0 || strategy > 2 || behavior < 0 || behavior > 1:
		return "want a tokenCalculateStrategy from 0 to 2 and a controlBehavior of 0 or 1"
	}
	relation := r.word("relationStrategy")
	r.set("controlBehavior", 2*behavior+strategy)
	r.set("relationStrategy", relation)
	r.rename("threshold", "count", "relationStrategy", "strategy")
	if !r.has("maxQueueingTimeMs") {
		r.set("maxQueueingTimeMs", 0)
	}
	r.interval = r.number("statIntervalInMs", 0)
	if factor := r.number("warmUpColdFactor", 3); strategy == 1 && factor != 3 && factor != 0 {
		return fmt.Sprintf("a warmUpColdFactor of %d, and a warm-up here starts at a third of the rate (3)", factor)
	}
	r.drop("tokenCalculateStrategy", "statIntervalInMs", "warmUpColdFactor", "lowMemUsageThreshold", "highMemUsageThreshold", "memLowWaterMarkBytes", "memHighWaterMarkBytes")
	return ""
}
