package alerts

import "time"

// Severity says how soon somebody should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // now: data is being lost, or users wait longer than without reuse
	Warning  Severity = "warning"  // today
)

// Comparison is of a value with a threshold, by Grafana's name.
type Comparison string

// The comparisons.
const (
	Below Comparison = "lt"
	Above Comparison = "gt"
)

// Alert is one alert. SQL, PromQL or both ask for it.
type Alert struct {
	Name     string // in CamelCase, and that of its page in kebab-case
	Severity Severity
	Summary  string        // one line, for who is called
	Text     string        // what it says and the first thing to do
	For      time.Duration // it must hold so long first

	// SQL gives a row a thing that is watched: texts, which become labels, and the
	// Float64 column value, NULL where it is not known. {{now}} is the instant at which
	// it is asked.
	SQL       string
	Is        Comparison
	Threshold float64
	// Unit is how the value is written in the summary: s, %, or "" for a number.
	Unit string

	PromQL string // holds where it gives a sample
}

// page is the name of the runbook.
func (a Alert) page() string {
	var out []byte
	for i, r := range []byte(a.Name) {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out = append(out, '-')
			}
			r += 'a' - 'A'
		}
		out = append(out, r)
	}
	return string(out)
}

// runbookURL is where the pages are read.
const runbookURL = "https://github.com/kvwhatif/kvwhatif/blob/main/docs/runbooks/"

// Alerts are all of them.
func Alerts() []Alert {
	return append(append(benefitAlerts(), calibrationAlerts()...), pipelineAlerts()...)
}

func benefitAlerts() []Alert {
	return []Alert{{
		Name: "NetBenefitNegative", Severity: Critical, For: 15 * time.Minute,
		Summary: "Fetching KV makes requests slower than computing it again",
		Text:    "The whole interval of the measured benefit of fetching is below zero. Have coordinators recompute there until it is known why.",
		SQL:     netBenefit, Is: Below, Threshold: 0, Unit: "s",
	}, {
		Name: "DecisionCoverageLow", Severity: Warning, For: 15 * time.Minute,
		Summary: "Of more than a fifth of the requests the benefit is not known",
		Text:    "Spans lack a decision, an outcome or an alternative. What is shown may not hold for all traffic.",
		SQL:     decisionCoverage, Is: Below, Threshold: 0.8,
	}, {
		Name: "ReplayCoverageLow", Severity: Warning, For: 15 * time.Minute,
		Summary: "More than a fifth of the replays that were drawn did not come back",
		Text:    "Estimates lean towards what could be replayed. See budgets, the executor and the circuit breaker.",
		SQL:     replayCoverage, Is: Below, Threshold: 0.8,
		PromQL: "sum(increase(kvwhatif_replay_legs_executed_total[2h])) / (sum(increase(kvwhatif_replay_legs_drawn_total[2h])) > 20) < 0.8",
	}, {
		Name: "LinkBusy", Severity: Warning, For: 10 * time.Minute,
		Summary: "A shared link is over 90 % full",
		Text:    "Each further transfer delays all that are under way. Let coordinators follow prices, or recompute short prefixes.",
		SQL:     linkLoad, Is: Above, Threshold: 0.9,
	}}
}

func calibrationAlerts() []Alert {
	return []Alert{{
		Name: "CoefficientsExpired", Severity: Critical,
		Summary: "The coefficients have expired",
		Text:    "Coordinators decide by their fallback, or will in 15 minutes. Run kvwhatif calibrate and see why its last runs ended.",
		SQL:     coefficientsLeft, Is: Below, Threshold: 0, Unit: "s",
		PromQL: "kvwhatif_serve_expires_timestamp_seconds - time() < 0 and kvwhatif_serve_revision > 0",
	}, {
		Name: "CalibrationMissed", Severity: Warning,
		Summary: "The calibration missed two runs in a row",
		Text:    "Nothing was published or renewed since. The coefficients expire if nobody sees to it.",
		SQL:     calibrationAge, Is: Above, Threshold: missedRuns,
		PromQL: "(time() - kvwhatif_last_success_timestamp_seconds{stage=\"calibrate\"}) / kvwhatif_run_interval_seconds{stage=\"calibrate\"} > 2.25 and " +
			"(time() - kvwhatif_started_timestamp_seconds{stage=\"calibrate\"}) / kvwhatif_run_interval_seconds{stage=\"calibrate\"} > 2.25",
	}, {
		Name: "PredictionsDrift", Severity: Warning, For: 15 * time.Minute,
		Summary: "Predictions are off by more than a fifth, all to one side",
		Text:    "The coefficients no longer hold on a path or link. Something changed there: a link, an engine, its load. Calibrate again.",
		SQL:     predictionLean, Is: Above, Threshold: 0.2,
		PromQL: "kvwhatif_calibrate_drift == 1",
	}, {
		Name: "CoordinatorRefusing", Severity: Warning, For: 5 * time.Minute,
		Summary: "A coordinator refuses the coefficients",
		Text:    "It decides by older ones or by its fallback. It says why in coordinator_status.",
		SQL:     coordinatorRefusals, Is: Above, Threshold: 0,
		PromQL: "kvwhatif_serve_coordinators{state=\"refused\"} > 0",
	}}
}

func pipelineAlerts() []Alert {
	return []Alert{{
		Name: "NothingNew", Severity: Critical, For: 5 * time.Minute,
		Summary: "Nothing has come into the tables for ten minutes",
		Text:    "Either no spans arrive, or load does not bring them on. What dashboards show is old.",
		SQL:     newestMinute, Is: Above, Threshold: 600, Unit: "s",
	}, {
		Name: "DeadLetters", Severity: Warning,
		Summary: "Spans were refused and kept as dead letters",
		Text:    "kvwhatif dlq list says which and why; after the cause is mended, kvwhatif dlq retry.",
		PromQL: "sum by (reason) (increase(kvwhatif_load_dead_letters_total[10m])) > 0 or " +
			"sum by (reason) (increase(kvwhatif_otlp_spans_rejected_total[10m])) > 0",
	}, {
		Name: "LoadLag", Severity: Warning, For: 10 * time.Minute,
		Summary: "More than a thousand messages wait to be loaded",
		Text:    "Load does not keep up. Nothing is lost while Kafka keeps it; see that retention is longer than the lag.",
		PromQL:  "sum(kvwhatif_load_lag) > 1000",
	}, {
		Name: "LoadStalled", Severity: Critical, For: 5 * time.Minute,
		Summary: "Load has brought nothing on for ten minutes, though there is something",
		Text:    "The database refuses or is away, or load hangs. Its log says what it tries again.",
		PromQL: "(sum by (job, instance) (kvwhatif_load_lag) > 0 or sum by (job, instance) (increase(kvwhatif_load_retries_total[10m])) > 0) and " +
			"sum by (job, instance) (changes(kvwhatif_load_position[10m])) == 0",
	}, {
		Name: "MessagesLost", Severity: Critical,
		Summary: "Kafka deleted messages before they were read",
		Text:    "They are lost. Lengthen the topic's retention, and find out why load was behind.",
		PromQL:  "increase(kvwhatif_kafka_lost_messages_total[10m]) > 0",
	}, {
		Name: "ReplayBreakerOpen", Severity: Warning, For: 15 * time.Minute,
		Summary: "The circuit breaker holds replays",
		Text:    "Production is slower beside replays than without them. New measurements stop, and what is known grows old.",
		PromQL:  "kvwhatif_replay_breaker_open == 1",
	}, {
		Name: "StageUnseen", Severity: Warning, For: 10 * time.Minute,
		Summary: "Metrics of load or of the coefficient server are missing",
		Text:    "Every other rule of that stage is silent meanwhile: unknown, not well.",
		PromQL:  "absent(kvwhatif_build_info{stage=~\"load|up\"}) or absent(kvwhatif_build_info{stage=~\"serve|up\"})",
	}}
}
