package live

import (
	"fmt"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// steps are what is missing on the way to a verdict, the first first, and what to
// do about each. None where there is a verdict and nothing is missing.
func steps(d report.Data, held query.Holdings, c choice, otlp string) (out []report.Step) {
	add := func(missing, do, command string) {
		out = append(out, report.Step{Missing: missing, Do: do, Command: command})
	}
	n := d.Coverage.Requests
	switch {
	case held.Newest.IsZero():
		add("No request ever came.", "Send OTLP traces "+where(otlp)+", from coordinators that write the span kvreuse.request. To see the page with requests in it, run the demo first.", "kvwhatif demo")
		return out
	case n == 0:
		add(fmt.Sprintf("No request in the %s%s.", c.name(), limited(c)), "The newest request of all is from "+held.Newest.Format("2006-01-02 15:04 UTC")+": choose a longer range above"+orFewer(c)+", or look whether spans still come.", "kvwhatif tail")
		return out
	case d.Coverage.WithDecision == 0:
		add("No request says what was decided.", "The engines' own spans came and no coordinator's: TTFT is known, and what the other path would have taken is not. Have the coordinator write the span kvreuse.request (schema/kvspan in Go, any OpenTelemetry SDK elsewhere).", "")
	case d.Coverage.Predicted == 0:
		add("No request has a predicted alternative.", "The coordinator writes its choice alone. Have it write what it weighed (kvreuse.candidate.*): without that nothing can be drawn for replay.", "")
	}
	if held.Legs == 0 {
		add("No path that was not taken was measured.", "Run the replayer, with an executor for your engines (docs/EXECUTORS.md). It keeps to a budget, and a kill file stops it.", "kvwhatif replay --executor URL")
	} else if len(d.Verdicts) == 0 {
		add("Replays came back, and no verdict was made of them"+limited(c)+".", "Run the estimator, and have cron run it again every some minutes. One of a single model is made only if it is asked for.", "kvwhatif verdict --since "+c.Range)
	}
	if held.Documents == 0 {
		add("No coefficients were published.", "Coordinators decide by their fallback. Fit the cost model to this traffic, and have cron do it again every hour or so.", "kvwhatif calibrate")
	}
	return out
}

func where(otlp string) string {
	if otlp == "" {
		return "to your kvwhatif collect"
	}
	return "to " + otlp
}

func limited(c choice) (s string) {
	if c.Link != "" {
		s = " on link " + c.Link
	}
	if c.Model != "" {
		s += " of model " + c.Model
	}
	return s
}

func orFewer(c choice) string {
	if c.Link == "" && c.Model == "" {
		return ""
	}
	return " or all links and models"
}
