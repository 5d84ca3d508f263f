package report

import "time"

var start = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

func ci(value, low, high float64, n int64) *Interval {
	return &Interval{Value: value, Low: low, High: high, Level: 0.95, N: n}
}

func prediction(value float64) *Interval { return &Interval{Value: value} }

// sample is a fixed Data in which every section has something to say, good and
// bad.
func sample() Data {
	return Data{
		Title: "Mooncake hour, 20 times as fast, on a busy link and a calm one", Simulated: true,
		Verdicts: sampleVerdicts(), Benefits: sampleBenefits(), Stages: sampleStages(), Truths: sampleTruths(),
		Calibration: sampleCalibration(), Arms: sampleArms(), Worst: sampleWorst(), Coverage: sampleCoverage(),
		Measured: Measured{Version: "kvwhatif 0.1.0 (0f06cae)", Command: "kvwhatif demo --dir ./demo --seed 7", Machine: "linux/amd64, 2 cores, 24 GiB",
			From: start, Until: start.Add(3 * time.Minute), Generated: start.Add(9 * time.Minute), Wall: 212.4,
			Notes: []string{"The replay budget was 10 % of cost.", "Blocks of 5 s across all workers of a link."}},
	}
}

func sampleVerdicts() []Verdict {
	return []Verdict{
		{Link: "busy", Path: "fetch", Alternative: "recompute", State: Hurting, Own: ci(-0.412, -0.47, -0.35, 214), Others: &Interval{Value: -0.03, N: 5012}, Net: prediction(-0.442), Requests: 5012, Replays: 214},
		{Link: "calm", Path: "fetch", Alternative: "recompute", State: Helping, Own: ci(0.187, 0.161, 0.213, 198), Others: prediction(0.004), Net: prediction(0.191), Requests: 4410, Replays: 198},
		{Link: "busy", Path: "recompute", Alternative: "fetch", State: Even, Own: ci(0.0004, -0.0021, 0.0029, 640), Requests: 2108, Replays: 640},
		{Link: "calm", Path: "route", Alternative: "recompute", State: Unknown, Requests: 61, Replays: 3, Reason: "3 legs came back, and an interval needs 20"},
		{Path: "fetch", Alternative: "recompute", Policy: "always-fetch", State: Unknown, Own: ci(-0.02, -0.09, 0.05, 412), Requests: 9422, Replays: 412},
	}
}

func sampleBenefits() []Benefit {
	return []Benefit{
		{By: "path", Name: "fetch", Requests: 9422, Hurt: 4100, Unknown: 12, Predicted: ci(-0.13, -0.14, -0.12, 9410), Measured: ci(-0.11, -0.15, -0.07, 412), Unmeasured: Num(0.02)},
		{By: "path", Name: "recompute", Requests: 2108, Hurt: 31, Unknown: 2108, Unmeasured: Num(1), Reason: "no control support for fetch"},
		{By: "tier", Name: "cpu", Requests: 7001, Hurt: 3000, Predicted: ci(-0.2, -0.22, -0.18, 7001), Measured: ci(-0.19, -0.26, -0.12, 300), Unmeasured: Num(0)},
		{By: "tier", Name: "peer", Requests: 2421, Hurt: 1100, Unknown: 40, Predicted: ci(0.05, 0.03, 0.07, 2381), Measured: ci(0.01, -0.06, 0.08, 112), Unmeasured: Num(0.11)},
		{By: "link", Name: "busy", Requests: 5012, Hurt: 4000, Predicted: ci(-0.39, -0.4, -0.38, 5012), Measured: ci(-0.412, -0.47, -0.35, 214), Unmeasured: Num(0.004)},
		{By: "link", Name: "calm", Requests: 4410, Hurt: 100, Predicted: ci(0.18, 0.17, 0.19, 4410), Measured: ci(0.187, 0.161, 0.213, 198), Unmeasured: Num(0.01)},
		{By: "size", Name: "≤512", Requests: 800, Hurt: 790, Predicted: ci(-0.02, -0.03, -0.01, 800), Measured: ci(-0.018, -0.03, -0.006, 40), Unmeasured: Num(0)},
		{By: "size", Name: ">32,768", Requests: 420, Hurt: 2, Predicted: ci(1.9, 1.7, 2.1, 420), Measured: ci(9.2, -14, 32, 22), Unmeasured: Num(0.4)},
		{By: "policy", Name: "always-fetch", Requests: 9422, Hurt: 4100, Unknown: 12, Predicted: ci(-0.13, -0.14, -0.12, 9410), Measured: ci(-0.11, -0.15, -0.07, 412), Unmeasured: Num(0.02)},
	}
}

func sampleStages() []Stages {
	return []Stages{
		{Path: "fetch", Link: "busy", Requests: 5012, GPUQueue: 0.061, ExposedStall: 0.702, Restore: 0.012, Prefill: 0.058, Remainder: 0.004, TTFT: 0.837},
		{Path: "fetch", Link: "calm", Requests: 4410, GPUQueue: 0.058, ExposedStall: 0.021, Restore: 0.012, Prefill: 0.057, Remainder: -0.003, TTFT: 0.145},
		{Path: "recompute", Requests: 2108, GPUQueue: 0.088, Prefill: 0.311, Remainder: 0.002, TTFT: 0.401},
		{Path: "resident", Requests: 301, GPUQueue: 0.05, Prefill: 0.049, Remainder: -0.02, TTFT: 0.079},
	}
}

func sampleTruths() []Truth {
	return []Truth{
		{Path: "fetch", Alternative: "recompute", Link: "busy", Truth: Num(-0.401), Requests: 5012, Methods: []Method{
			{Name: "AIPW", Estimate: ci(-0.412, -0.47, -0.35, 214)}, {Name: "SNIPW", Estimate: ci(-0.44, -0.56, -0.32, 214)},
			{Name: "IPW", Estimate: ci(-0.52, -0.79, -0.25, 214)}, {Name: "SNIPW, one half", Estimate: ci(-0.09, -0.12, -0.06, 107)}, {Name: "naive", Estimate: &Interval{Value: -0.09, N: 214}}}},
		{Path: "route", Alternative: "recompute", Link: "calm", Requests: 61, Methods: []Method{{Name: "AIPW", Reason: "3 legs came back"}}},
		{Path: "fetch", Alternative: "recompute", Link: "busy", Others: true, Truth: Num(-3.02), Requests: 93, Methods: []Method{{Name: "as predicted", Estimate: prediction(-0.12)}}},
	}
}

func sampleCalibration() Calibration {
	return Calibration{Revision: 4, Previous: 3, Outcome: "published", Reasons: []string{"Better on 3 of 3 slices that matter.", "Enough data on each."},
		Requests: 11831, FitFrom: start.Add(-time.Hour), FitUntil: start,
		Terms: []Term{
			{Law: "prefill", Of: "qwen-7b on h100", Form: "c0 + c1 n + c2 n(m + n/2)", N: 4021,
				Values: []Value{{"c0", "s a chunk", Num(0.0445), Num(0.0004)}, {"c1", "s a token", Num(1.89e-5), Num(2e-7)}, {"c2", "s a token²", Num(5e-11), Num(3e-12)}, {"chunk", "tokens", Num(2048), Number{}}},
				Error:  Num(0.012), Floor: Num(0.009), Residuals: [5]Number{Num(-0.004), Num(-0.001), Num(0.0002), Num(0.0015), Num(0.006)}, MaxTokens: Num(131072), MaxConcurrent: Num(8)},
			{Law: "transfer", Of: "tier cpu over link busy", Form: "B/(c(1+γ(c−1)))", N: 900,
				Values: []Value{{"t0", "s", Num(0.0021), Num(0.0003)}, {"b", "bytes/s", Num(4.91e10), Num(2.2e8)}, {"gamma", "a flow", Num(-0.001), Num(0.004)}},
				Error:  Num(0.061), Floor: Num(0.05), Residuals: [5]Number{Num(-0.2), Num(-0.02), Num(0.01), Num(0.09), Num(1.4)}, MaxBytes: Num(19.3e9), MaxConcurrent: Num(16)},
			{Law: "queue", Of: "all workers", N: 0, Values: []Value{{"omega", "share", Number{}, Number{}}}},
		},
		Challenges: []Contest{{"fetch, link busy", 800, Num(0.12), Num(0.061), true, "better"}, {"fetch, link calm", 700, Num(0.05), Num(0.049), true, "same"},
			{"recompute", 400, Num(0.013), Num(0.012), true, ""}, {"route", 3, Num(0.2), Num(0.4), true, "minor"}},
	}
}

func sampleArms() []Arm {
	return []Arm{
		{Policy: "always-fetch", Default: true, Requests: 11831, Mean: Num(0.51), P50: Num(0.2), P95: Num(2.1), P99: Num(4.4)},
		{Policy: "always-fetch", AA: true, Requests: 11831, Mean: Num(0.511), P50: Num(0.2), P95: Num(2.1), P99: Num(4.3), Gain: ci(-0.001, -0.006, 0.004, 11831)},
		{Policy: "never-fetch", Requests: 11831, Mean: Num(0.62), P50: Num(0.4), P95: Num(2.3), P99: Num(3.9), Gain: ci(-0.11, -0.13, -0.09, 11831)},
		{Policy: "priced", Note: "by the published coefficients and link prices", Requests: 11831, Mean: Num(0.22), P50: Num(0.14), P95: Num(0.6), P99: Num(1.2), Gain: ci(0.29, 0.27, 0.31, 11831)},
		{Policy: "seed-rule", Requests: 0, Reason: "the arm did not finish"},
		{Policy: "always-fetch", Link: "calm", Default: true, Requests: 11831, Mean: Num(0.31), P50: Num(0.2), P95: Num(2.1), P99: Num(14.4)},
		{Policy: "priced", Link: "calm", Requests: 11831, Mean: Num(0.3), P50: Num(0.19), P95: Num(2.1), P99: Num(13.4), Gain: ci(0.01, 0.006, 0.014, 11831)},
	}
}

func sampleWorst() []Decision {
	return []Decision{
		{Trace: "4bf92f3577b34da6a3ce929d0e0e4736", At: start.Add(31 * time.Second), Path: "fetch", Alternative: "recompute", Link: "busy", Model: "qwen-7b", Policy: "always-fetch",
			Observed: Num(4.41), Predicted: Num(0.52), Regret: Num(3.1),
			Taken:    Timeline{GPUQueue: Num(0.04), ExposedStall: Num(4.2), Restore: Num(0.05), Prefill: Num(0.09), TTFT: Num(4.41)},
			NotTaken: Timeline{GPUQueue: Num(0.04), Prefill: Num(0.48), TTFT: Num(0.52)}},
		{Trace: "00f067aa0ba902b700f067aa0ba902b7", At: start.Add(95 * time.Second), Path: "recompute", Alternative: "fetch", Link: "calm", Observed: Num(12.4), Predicted: Num(9.1), Regret: Num(1.2)},
	}
}

func sampleCoverage() Coverage {
	return Coverage{Requests: 11831, WithDecision: 11830, Predicted: 11600, Sampled: 1203,
		Legs: []Legs{{"≤512", "rejected", Num(80), 80}, {"2,049–8,192", "rejected", Num(500), 455}, {">32,768", "rejected", Num(60), 22}, {">32,768", "control", Number{}, 20}},
		Support: []Support{{"link busy: fetch against recompute", 214, Num(181.3), Num(0.021), Num(0.31)},
			{"link calm: route against recompute", 3, Num(1.4), Num(0.8), Num(0.92)}},
		Refusals: []Count{{"over the budget of link bytes", 41}, {"the worker was not idle before the deadline", 12}}, DeadLetters: []Count{{"candidate arrays of unequal length", 2}},
		Waiting: 3, Accepted: Num(11831), Lost: Num(0), Doubled: Num(0)}
}
