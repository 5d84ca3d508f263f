package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

func TestStepsSayWhatIsMissing(t *testing.T) {
	some := func(n, decided, predicted int64) report.Data {
		return report.Data{Coverage: report.Coverage{Requests: n, WithDecision: decided, Predicted: predicted}}
	}
	done := some(9, 9, 9)
	done.Verdicts = []report.Verdict{{Link: "busy"}}
	all := query.Holdings{Newest: start, Legs: 3, Documents: 1}
	for name, c := range map[string]struct {
		data report.Data
		held query.Holdings
		of   choice
		want []string // what each says
		do   string   // of the first
	}{
		"nothing ever":  {held: query.Holdings{}, want: []string{"No request ever came."}, do: "127.0.0.1:4318"},
		"an old one":    {held: all, of: choice{Range: "15m"}, want: []string{"No request in the last 15 min."}, do: "2026-12-01 09:00 UTC"},
		"none of it":    {held: all, of: choice{Range: "15m", Link: "busy", Model: "m"}, want: []string{"No request in the last 15 min on link busy of model m."}, do: "all links"},
		"engines only":  {data: some(9, 0, 0), held: query.Holdings{Newest: start, Documents: 1}, want: []string{"No request says what was decided.", "No path that was not taken was measured."}, do: "kvreuse.request"},
		"no candidates": {data: some(9, 9, 0), held: all, want: []string{"No request has a predicted alternative.", "Replays came back, and no verdict was made of them."}, do: "kvreuse.candidate"},
		"no replays":    {data: some(9, 9, 9), held: query.Holdings{Newest: start}, want: []string{"No path that was not taken was measured.", "No coefficients were published."}, do: "budget"},
		"no verdict":    {data: some(9, 9, 9), held: all, want: []string{"Replays came back, and no verdict was made of them."}, do: "estimator"},
		"all":           {data: done, held: all},
	} {
		t.Run(name, func(t *testing.T) {
			if c.of.Range == "" {
				c.of.Range = defaultRange
			}
			var got []string
			out := steps(c.data, c.held, c.of, "127.0.0.1:4318")
			for _, s := range out {
				got = append(got, s.Missing)
			}
			require.Equal(t, c.want, got)
			if len(out) > 0 {
				require.Contains(t, out[0].Do, c.do)
			}
		})
	}
	require.Contains(t, steps(report.Data{}, query.Holdings{}, choice{Range: "1h"}, "")[0].Do, "kvwhatif collect")
	require.Equal(t, 15*time.Second, every, "what the page says of its updates")
}
