package load

import "time"

// A Result is what a Run saw.
type Result struct {
	Profile     Profile   `json:"profile"`
	Mode        string    `json:"mode,omitempty"`
	Work        string    `json:"work,omitempty"`
	Sale        string    `json:"sale"`
	Users       int       `json:"users"`
	Connections int       `json:"connections"`
	Began       time.Time `json:"began"` // when users were due, or the first of them

	Over time.Duration `json:"over_ns,omitempty"` // see Config

	// Took is from then to the last answer. Busy is to the end of the crowd's first
	// questions: until every user had one answer at least. Bound says that Duration or
	// Requests ended it.
	Took  time.Duration `json:"took_ns"`
	Busy  time.Duration `json:"busy_ns"`
	Bound bool          `json:"bound"`

	// Requests that were answered, and how many a second while Busy; Errors are those
	// without an answer, by what went wrong.
	Requests  int64            `json:"requests"`
	InBusy    int64            `json:"requests_in_busy"`
	PerSecond float64          `json:"per_second"`
	Refused   int64            `json:"refused"` // by a layer: statuses 4xx and 5xx
	Errors    map[string]int64 `json:"errors,omitempty"`

	Latency Quantiles            `json:"latency"` // from sent to answered
	Due     Quantiles            `json:"due"`     // from due to answered
	Calls   map[string]Quantiles `json:"calls"`   // Latency by the kind of call

	Status  map[int]int64    `json:"status"`
	Reasons map[string]int64 `json:"reasons,omitempty"`
	Layers  map[string]int64 `json:"layers,omitempty"`

	// What became of the users.
	Bought   int `json:"bought"`
	Paid     int `json:"paid"`
	Canceled int `json:"canceled"`
	SoldOut  int `json:"told"`     // that there is nothing to buy
	GaveUp   int `json:"gave_up"`  // out of patience
	Active   int `json:"standing"` // still in line or between two questions at the end

	// Lost counts reservations of a Lossy gate that buyers were told are lost.
	Lost int64 `json:"lost,omitempty"`

	// Reserved is when the last reservation was granted, Drained when the last of them was
	// known to be an order, and Gone when a user was first told that no unit is free: all
	// from when users were due, and 0 if it did not happen. Drain is orders per second from
	// the first reservation to Drained.
	Reserved     time.Duration `json:"reserved_ns"`
	Drained      time.Duration `json:"drained_ns"`
	FirstSoldOut time.Duration `json:"gone_ns"`
	Drain        float64       `json:"drain_per_second"`

	// Faults are answers that are never right, with how often they came.
	Faults map[string]int64 `json:"faults,omitempty"`

	Sent     float64          `json:"sent_bytes"`     // by a request, on average
	Received float64          `json:"received_bytes"` // by an answer
	Machine  Machine          `json:"machine"`
	CPU      time.Duration    `json:"cpu_ns"` // of this process, while it ran
	Share    float64          `json:"share"`  // of the time of all processors that this process used
	Servers  map[string]Usage `json:"servers,omitempty"`
}

// Quantiles of times.
type Quantiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
}

// A Machine is what a run ran on.
type Machine struct {
	Processors int    `json:"processors"`
	Model      string `json:"model,omitempty"`
	Memory     int64  `json:"memory_bytes,omitempty"`
	System     string `json:"system"`
	Go         string `json:"go"`
}

// Usage is what a process used while a run ran.
type Usage struct {
	CPU   time.Duration `json:"cpu_ns"`    // with the processes below it
	Share float64       `json:"share"`     // of the time of all processors
	RSS   int64         `json:"rss_bytes"` // the most that was seen, of itself
	Grew  int64         `json:"grew_bytes"`
}
