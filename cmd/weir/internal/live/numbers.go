package live

import (
	"math"
	"slices"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic"
)

// averageOver is the number of seconds of a rate.
const averageOver = 10

// trendSeconds is the number of seconds of a trend.
const trendSeconds = 60

// rates are means per second, by column of traffic.Counts.
type rates [6]float64

func (r *rates) requests() float64 {
	return r[traffic.Admitted] + r[traffic.Denied] + r[traffic.Shadow] + r[traffic.Overloaded]
}

// rows returns the rows of a policy from first to the last second of s, and their step.
func (s *state) rows(policy string, first int64) (rows []*traffic.Row, from int64, step int) {
	all := s.history.Series(policy, time.Unix(first, 0))
	step, from, rows = all.Step, all.From, all.Rows
	if most := (s.second + 1 - from) / int64(max(1, step)); int64(len(rows)) > max(0, most) {
		rows = rows[:max(0, most)]
	}
	return rows, from, step
}

// recent returns the mean of the last seconds of a policy.
func (s *state) recent(policy string) (mean rates) {
	rows, _, step := s.rows(policy, s.second+1-averageOver)
	n := 0
	for _, row := range rows[max(0, len(rows)-averageOver/max(1, step)):] {
		if row == nil {
			continue
		}
		n++
		for column, count := range row.Counts {
			mean[column] += float64(count)
		}
	}
	for column := range mean {
		mean[column] = round(mean[column] / float64(max(1, n*step)))
	}
	return mean
}

// latency returns the quantiles of the last second with a decision, in ms.
func (s *state) latency() (p50, p99 float64) {
	rows, _, _ := s.rows("", s.second+1-averageOver)
	for i := len(rows) - 1; i >= 0; i-- {
		if rows[i] != nil && rows[i].P99 > 0 {
			return toMS(rows[i].P50), toMS(rows[i].P99)
		}
	}
	return 0, 0
}

// trend returns the denials per second of the last minute, oldest first; nil without data.
func (s *state) trend(policy string) []*float64 {
	trend := make([]*float64, trendSeconds)
	first := s.second + 1 - trendSeconds
	rows, from, step := s.rows(policy, first)
	if rows == nil { // no request in the last hour
		rows, from, step = s.rows("", first)
		rows = slices.Clone(rows)
		for i, row := range rows {
			if row != nil {
				rows[i] = &traffic.Row{}
			}
		}
	}
	for i, row := range rows {
		for k := range step {
			at := from + int64(i*step+k) - first
			if row == nil || at < 0 || at >= trendSeconds {
				continue
			}
			v := round(float64(row.Counts[traffic.Denied]) / float64(step))
			trend[at] = &v
		}
	}
	return trend
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// toMS returns d in ms with three digits behind the point.
func toMS(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
