package report

import "strings"

// Shown is the state that may be shown: the verdict's own, unless what it rests
// on does not carry it. It rests on the net effect where that has an interval,
// and else on the measured own effect, whose sign the model's net effect must
// not turn. Everything else is unknown.
func (v *Verdict) Shown() State {
	switch {
	case v.State != Helping && v.State != Hurting && v.State != Even:
		return Unknown
	case v.Net.HasInterval():
		return agree(v.State, v.Net)
	case v.turned():
		return Unknown
	}
	return agree(v.State, v.Own)
}

// turned says that the model's net effect has the other sign than the own
// effect: a prediction alone does not decide, but it takes away the answer.
func (v *Verdict) turned() bool {
	return v.Own.Known() && v.Net.Known() && !v.Net.HasInterval() && v.Own.Value*v.Net.Value < 0
}

// agree gives s where the whole interval is on its side of no difference. How
// narrow an interval must be to be even is the margin of whoever said so.
func agree(s State, i *Interval) State {
	switch {
	case !i.HasInterval():
		return Unknown
	case s == Even, s == Helping && i.Low > 0, s == Hurting && i.High < 0:
		return s
	}
	return Unknown
}

// Why says why a verdict is unknown; "" where it is not.
func (v *Verdict) Why() string {
	if v.Shown() != Unknown {
		return ""
	}
	switch {
	case v.turned() && v.State != Unknown:
		return "by the model, the effect on other requests outweighs that on these and turns the answer, and a prediction alone does not decide"
	case v.Reason != "":
		return strings.TrimSuffix(v.Reason, ".")
	case !v.Own.HasInterval():
		return "no replay measured the path that was not taken"
	case v.Own.Low <= 0 && v.Own.High >= 0:
		return CoversZero
	}
	return "nothing says that the measurement is good enough"
}

// CoversZero is why a verdict with an interval is unknown.
const CoversZero = "the interval includes no difference"

// Say is the verdict as one or two sentences that a person understands.
func (v *Verdict) Say() string { return breakable(v.say()) }

func (v *Verdict) say() string {
	s := v.ownSentence()
	if v.Others.Known() && v.Shown() != Unknown { // what is unknown is not made to look good by a prediction
		s += " " + v.othersSentence()
	}
	return s
}

func (v *Verdict) ownSentence() string {
	if !v.Own.HasInterval() {
		return v.Scope() + ", it is unknown whether " + doing(v.Path) + " helps against " +
			doing(v.Alternative) + ": " + v.Why() + " (" + v.basis() + ")."
	}
	effect := doing(v.Path) + " made requests " + signed(v.Own.Value) + " than " +
		doing(v.Alternative) + " would have been"
	if v.Own.Value == 0 {
		effect = doing(v.Path) + " and " + doing(v.Alternative) + " made no difference"
	}
	detail := " (" + bounds(v.Own) + "; " + v.basis() + ")"
	if v.Shown() == Even {
		return v.Scope() + ", it makes no difference that matters: " + effect + detail + "."
	}
	if v.Shown() == Unknown {
		return v.Scope() + ", it is unknown whether " + doing(v.Path) + " helps: " + v.Why() +
			". The estimate is that " + effect + detail + "."
	}
	return v.Scope() + ", " + effect + detail + "."
}

func (v *Verdict) othersSentence() string {
	s := "It made no difference to other requests"
	switch {
	case v.Others.Value < 0:
		s = "Each also cost other requests " + seconds(-v.Others.Value) + " of delay"
	case v.Others.Value > 0:
		s = "Each also saved other requests " + seconds(v.Others.Value) + " of delay"
	}
	if v.Others.HasInterval() {
		s += " (by the model, " + level(v.Others.Level) + " " + span(v.Others.Low, v.Others.High) + ")"
	} else {
		s += " (predicted)"
	}
	if v.Net.HasInterval() { // a measurement and a prediction make no net figure
		s += "; net, " + signed(v.Net.Value) + " (" + bounds(v.Net) + ")"
	}
	return s + "."
}

// OthersCaveat is what to keep in mind of every predicted effect on other requests.
const OthersCaveat = "Delay of other requests is predicted when it is decided, without an interval. Where there is no link price it counts only transfers then under way, which is too kind to fetching on a loaded link."

// caveated says that some verdict shows such a prediction.
func caveated(all []Verdict) bool {
	for i := range all {
		if o := all[i].Others; o.Known() && !o.HasInterval() {
			return true
		}
	}
	return false
}

// basis is what a verdict rests on: "214 replays of 5,012 fetched requests".
func (v *Verdict) basis() string {
	if v.Requests == 0 {
		return plural(v.Replays, "replay")
	}
	return plural(v.Replays, "replay") + " of " + count(v.Requests) + " " + done(v.Path) + " " + noun(v.Requests, "request")
}

func noun(n int64, s string) string {
	if n == 1 {
		return s
	}
	return s + "s"
}

// Scope names where the verdict holds, as the start of a sentence.
func (v *Verdict) Scope() string {
	s := "Over all links"
	if v.Link != "" {
		s = "On link " + v.Link
	}
	return s + v.rest()
}

// rest is the scope beyond the link.
func (v *Verdict) rest() (s string) {
	for _, x := range []struct{ name, value string }{
		{"policy", v.Policy}, {"model", v.Model}, {"tier", v.Tier}, {"prefix tokens", v.Size},
	} {
		if x.value != "" {
			s += ", " + x.name + " " + x.value
		}
	}
	return s
}

// Do is what to do about the verdict.
func (v *Verdict) Do() string {
	if v.Action != "" {
		return v.Action
	}
	where := "here"
	if v.Link != "" {
		where = "on link " + v.Link
	}
	switch v.Shown() {
	case Even:
		return "Either path will do " + where + ": choose by what it costs others."
	case Helping:
		return "Keep " + doing(v.Path) + " " + where + ". Look again when its load changes."
	case Hurting:
		if v.Path == "fetch" {
			return "Fetch less " + where + ": let coordinators decide by the published coefficients and link price, or cap the transfers in flight, and measure again."
		}
		return "Do less " + doing(v.Path) + " " + where + ": let coordinators decide by the published coefficients, and measure again."
	}
	if v.turned() {
		return "Treat " + doing(v.Path) + " " + where + " with care: look at the load of the link before more of it is allowed."
	}
	return "Do not change anything because of this. A longer window or a larger replay budget makes an answer more likely."
}

// headline says that v is of the pair that is asked about first.
func (v *Verdict) headline() bool { return v.Path == "fetch" && v.Alternative == "recompute" }

// maxHeadlines is how many headlines are said in full: a fleet may have many links.
const maxHeadlines = 6

// split parts verdicts into those that are said in full, one a link, the headlines
// beyond maxHeadlines, and all other pairs.
func split(all []Verdict) (first, moreLinks, others []*Verdict) {
	for i := range all {
		v := &all[i]
		switch {
		case !v.headline():
			others = append(others, v)
		case len(first) < maxHeadlines:
			first = append(first, v)
		default:
			moreLinks = append(moreLinks, v)
		}
	}
	return first, moreLinks, others
}

// age says when and of which decisions a verdict was said, where that is not with
// the report.
func (v *Verdict) age() string {
	if v.At.IsZero() {
		return ""
	}
	s := "Estimated at " + moment(v.At)
	if !v.From.IsZero() && !v.To.IsZero() {
		s += ", of the decisions from " + moment(v.From) + " to " + moment(v.To)
	}
	return s + "."
}

// Word is the state in capitals, as it is shown.
func (v *Verdict) Word() string { return strings.ToUpper(string(v.Shown())) }

func doing(path string) string {
	switch path {
	case "fetch":
		return "fetching"
	case "recompute":
		return "recomputing"
	case "route":
		return "routing to the worker that holds the prefix"
	case "resident":
		return "using what was resident"
	case "":
		return "another path"
	}
	return path
}

func done(path string) string {
	switch path {
	case "fetch":
		return "fetched"
	case "recompute":
		return "recomputed"
	case "route":
		return "routed"
	case "":
		return "unlabelled"
	}
	return path
}
