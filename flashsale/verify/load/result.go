package load

import (
	"time"

	"github.com/floodweir/weir/flashsale/verify/load/measure"
)

// A Result holds the measurements of a Run.
type Result struct {
	Profile     Profile   `json:"profile"`
	Mode        string    `json:"mode,omitempty"`
	Work        string    `json:"work,omitempty"`
	Sale        string    `json:"sale"`
	Users       int       `json:"users"`
	Connections int       `json:"connections"`
	Began       time.Time `json:"began"` // when the first user was due

	Over time.Duration `json:"over_ns,omitempty"` // see Config

	// Took is the time from the start to the last response. Busy ends when every user has had
	// one response. Bound says that Duration or Requests ended the run.
	Took  time.Duration `json:"took_ns"`
	Busy  time.Duration `json:"busy_ns"`
	Bound bool          `json:"bound"`

	// Requests counts requests with a response, PerSecond their rate during Busy. Errors counts
	// requests without a response, by cause.
	Requests  int64            `json:"requests"`
	InBusy    int64            `json:"requests_in_busy"`
	PerSecond float64          `json:"per_second"`
	Refused   int64            `json:"refused"` // status 4xx or 5xx
	Errors    map[string]int64 `json:"errors,omitempty"`

	Latency measure.Quantiles            `json:"latency"` // from sending to the response
	Due     measure.Quantiles            `json:"due"`     // from the time the user was due to the response
	Calls   map[string]measure.Quantiles `json:"calls"`   // Latency by the kind of call

	Status  map[int]int64    `json:"status"`
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Layers  map[string]int64 `json:"layers,omitempty"`

	// The outcomes of the users.
	Bought   int `json:"bought"`
	Paid     int `json:"paid"`
	Canceled int `json:"canceled"`
	SoldOut  int `json:"sold_out"` // no unit was left
	GaveUp   int `json:"gave_up"`  // too many refusals
	Active   int `json:"active"`   // still waiting or between two requests at the end

	// Lost counts lost reservations, if the inventory is Lossy.
	Lost int64 `json:"lost,omitempty"`

	// Reserved is when the last reservation was granted, Drained when the last order was placed,
	// and FirstSoldOut when the first user received that no unit is free. They count from the
	// start; 0 means never. Drain is the rate of orders from the first reservation to Drained.
	Reserved     time.Duration `json:"reserved_ns"`
	Drained      time.Duration `json:"drained_ns"`
	FirstSoldOut time.Duration `json:"first_sold_out_ns"`
	Drain        float64       `json:"drain_per_second"`

	// Faults counts incorrect responses by kind.
	Faults map[string]int64 `json:"faults,omitempty"`

	Sent     float64                  `json:"sent_bytes"`     // average per request
	Received float64                  `json:"received_bytes"` // average per response
	Machine  measure.Machine          `json:"machine"`
	CPU      time.Duration            `json:"cpu_ns"` // of this process
	Share    float64                  `json:"share"`  // of all CPUs, by this process
	Servers  map[string]measure.Usage `json:"servers,omitempty"`
}
