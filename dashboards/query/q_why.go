package query

// Why asks what is missing where the answer to a question is empty: one row with
// one text, what is not there and what to do.
func Why(q Question, s Scope) string {
	reason := whySlices(s)
	switch q.Type {
	case TypeVerdict:
		reason = "multiIf((SELECT count() FROM verdicts) = 0, 'no verdict was ever given: run kvwhatif verdict, as kvwhatif up does every few minutes', " +
			"(SELECT count() FROM verdicts WHERE window_from < " + s.Until + " AND window_until > " + s.From + ") > 0, 'verdicts are there, but none that the filter lets through', " +
			"concat('no verdict covers this range: the last is of ', toString((SELECT max(window_until) FROM verdicts)), ' UTC'))"
	case TypeBenefit:
		if q.View == "series" && q.Source == "measured" {
			reason = "if((SELECT count() FROM estimates WHERE " + s.minutes("block") + ") = 0, 'nothing was measured in this range: is a replayer running, and kvwhatif verdict?', 'estimates are there, but none that the filter lets through')"
		} else {
			reason = "if((SELECT sum(n) FROM " + s.slices() + " AND path != '') = 0 AND (SELECT sum(n) FROM " + s.slices() + ") > 0, " +
				"'requests are there, but none with a decision: engines do not say which path was chosen, coordinators do (span kvreuse.request)', " + reason + ")"
		}
	case TypeLinks:
		reason = "if((SELECT count() FROM transfers) = 0, 'no transfer was ever seen: neither a request that moved bytes, nor a span of a cache', 'no transfer is in this range, or none that the filter lets through')"
	case TypeCoverage:
		if q.View == "legs" {
			reason = "'nothing was estimated in this range: is a replayer running, and kvwhatif verdict?'"
		}
	case TypeCalibration:
		reason = whyCalibration(q, reason)
	case TypeDecisions:
		if q.View == "worst" {
			reason = "if((SELECT sum(n) FROM " + s.slices() + ") > 0, 'no decision here is predicted to have hurt', " + reason + ")"
		}
	case TypeRequest:
		reason = "'no request has this id: give a request id, or the 32 hex digits of a row id or trace id; rows are kept 30 days unless retention says otherwise'"
	case TypeSQL, TypeAnnotation, TypeVariable:
		reason = "'the query returned no rows'"
	}
	return "SELECT ifNull(" + reason + ", '') AS reason"
}

func whyCalibration(q Question, reason string) string {
	switch q.View {
	case "document", "terms":
		return "'no document was ever published, so coordinators decide by their fallback: run kvwhatif calibrate'"
	case "history":
		return "if((SELECT count() FROM coefficients) = 0, 'no document was ever published: run kvwhatif calibrate', 'no document was published in this range')"
	case "coordinators":
		return "'no coordinator said anything for a week: they report to POST /v1/status of kvwhatif serve'"
	}
	return "if((SELECT sum(n) FROM slices WHERE n_predicted > 0) = 0, 'no request has both a prediction and a TTFT', " + reason + ")"
}

// whySlices looks for requests: ever, in the range, past the filter.
func whySlices(s Scope) string {
	return "multiIf((SELECT count() FROM slices) = 0, 'no request was ever loaded: send spans to kvwhatif collect, and see that load runs', " +
		"(SELECT count() FROM slices WHERE " + s.minutes("minute") + ") = 0, concat('no request is in this range: the last came at ', toString((SELECT max(minute) FROM slices)), ' UTC'), " +
		"'requests are there, but none that the filter lets through or that says this')"
}
