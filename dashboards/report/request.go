package report

import (
	"slices"
	"strings"
	"time"
)

// Request is one request with every path that it could have taken. All durations
// are seconds.
type Request struct {
	ID        string    `json:"id"` // of its row, hex
	Trace     string    `json:"trace"`
	RequestID string    `json:"request_id"`
	At        time.Time `json:"at"` // of the decision
	Path      string    `json:"path"`
	Model     string    `json:"model"`
	GPU       string    `json:"gpu"`
	Worker    string    `json:"worker"`
	Source    string    `json:"source_worker"`
	Tier      string    `json:"tier"`
	Link      string    `json:"link"`
	Policy    string    `json:"policy"`
	Revision  int64     `json:"revision"` // of the coefficients that decided; 0: none
	Prompt    Number    `json:"tokens_prompt"`
	Prefix    Number    `json:"tokens_prefix"`
	Reused    Number    `json:"tokens_reused"`
	Bytes     Number    `json:"bytes"`
	Flows     Number    `json:"link_flows"`    // on the link at the decision
	Active    Number    `json:"worker_active"` // requests on the worker at the decision
	StateAge  Number    `json:"state_age_seconds"`
	Queue     Number    `json:"transfer_queue_seconds"` // until the first byte
	Transfer  Number    `json:"transfer_seconds"`       // on the wire
	Benefit   Number    `json:"predicted_benefit_seconds"`

	Taken      Timeline    `json:"taken"`      // observed
	Candidates []Candidate `json:"candidates"` // as predicted at the decision
	Replays    []Leg       `json:"replays"`    // measured, later
}

// Candidate is a path that was weighed, as it was predicted.
type Candidate struct {
	Path        string   `json:"path"`
	Worker      string   `json:"worker"`
	Link        string   `json:"link"`
	Chosen      bool     `json:"chosen"`
	Alternative bool     `json:"alternative"` // that the choice is compared with
	Externality Number   `json:"externality_seconds"`
	Propensity  Number   `json:"propensity"` // with which the policy took it
	Stages      Timeline `json:"stages"`
}

// Leg is a path that was run again by the replayer.
type Leg struct {
	Kind    string    `json:"leg"` // "rejected": the path not taken; "control": the path taken
	Path    string    `json:"path"`
	Worker  string    `json:"worker"`
	Link    string    `json:"link"`
	At      time.Time `json:"at"`
	Carried Number    `json:"carried_ttft_seconds"` // TTFT brought to the state of the decision by the model
	Stages  Timeline  `json:"stages"`
}

// requestView is a request with every word and place worked out.
type requestView struct {
	Name, Say, Caution string
	Facts              []fact
	Bars               bars
	Rest               bars // candidates beyond the two
}

func newRequest(r *Request) requestView {
	v := requestView{Name: orUnlabelled(r.Path) + " at " + moment(r.At), Say: r.say(), Facts: r.facts(),
		Caution: "One request is one draw: chance may have made the difference. Judge a link or a policy by the verdict, over many."}
	first := []course{named(&r.Taken, "Taken: "+place(r.Path, r.Worker, r.Link)+" – observed")}
	var rest []course
	for i := range r.Candidates {
		c := &r.Candidates[i]
		where := place(c.Path, c.Worker, c.Link)
		switch {
		case c.Alternative:
			first = append(first, named(&c.Stages, "Not taken: "+where+" – predicted"))
		case c.Chosen:
			rest = append(rest, named(&c.Stages, "Taken: "+where+" – as predicted"))
		default:
			rest = append(rest, named(&c.Stages, "Weighed: "+where+" – predicted"))
		}
	}
	for i := range r.Replays {
		l := &r.Replays[i]
		what := map[string]string{"rejected": "Not taken", "control": "Taken, again"}[l.Kind]
		first = append(first, named(&l.Stages, orUnlabelled(what)+": "+place(l.Path, l.Worker, l.Link)+" – measured by replay at "+moment(l.At)))
	}
	v.Bars, v.Rest = falls(courseScale(first), first), falls(courseScale(slices.Concat(first, rest)), rest)
	return v
}

// place is a path with where it ran.
func place(path, worker, link string) string {
	s := orUnlabelled(path)
	if worker != "" {
		s += " on " + worker
	}
	if link != "" {
		s += " over " + link
	}
	return s
}

// alternative is the candidate that the choice is compared with; nil: none.
func (r *Request) alternative() *Candidate {
	for i := range r.Candidates {
		if r.Candidates[i].Alternative {
			return &r.Candidates[i]
		}
	}
	return nil
}

// say is the request in one or two sentences.
func (r *Request) say() string {
	s := "The first token came after " + number(r.Taken.TTFT) + ", by " + doing(r.Path) + "."
	if !r.Taken.TTFT.Known() {
		s = "Nobody told when the first token came; the path was " + orUnlabelled(r.Path) + "."
	}
	c := r.alternative()
	if c == nil || !c.Stages.TTFT.Known() {
		return s + " It is unknown what the alternative would have taken: nobody predicted one."
	}
	s += " " + sentence(doing(c.Path)+" was predicted to take "+number(c.Stages.TTFT))
	for i := range r.Replays {
		if l := &r.Replays[i]; l.Kind == "rejected" && l.Stages.TTFT.Known() {
			s += " A replay of " + doing(l.Path) + " took " + number(l.Stages.TTFT)
			if l.Carried.Known() {
				s += ", which the model carries to " + number(l.Carried) + " at the load of the decision"
			}
			s += "."
		}
	}
	return s
}

// facts are what is known of the request beside its stages.
func (r *Request) facts() (out []fact) {
	add := func(name, text string) {
		if text != "" && text != unknownWord {
			out = append(out, fact{name, text})
		}
	}
	whole := func(n Number, noun string) string {
		if !n.Known() {
			return ""
		}
		return strings.TrimSpace(plural(int64(n.V), noun))
	}
	add("Decided", moment(r.At))
	add("By", strings.TrimSpace("policy "+orUnlabelled(r.Policy)+byRevision(r.Revision)))
	add("Model", strings.TrimSpace(r.Model+" "+r.GPU))
	add("Prompt", whole(r.Prompt, "token"))
	add("Prefix held by somebody", whole(r.Prefix, "token"))
	add("Reused", whole(r.Reused, "token"))
	add("From", strings.TrimSpace(r.Source+" "+r.Tier))
	if r.Transfer.Known() {
		text := number(r.Transfer) + " on the wire"
		if r.Queue.Known() {
			text += ", " + number(r.Queue) + " before the first byte"
		}
		if r.Bytes.Known() {
			text = bytesOf(r.Bytes) + ": " + text
		}
		add("Transfer", text+". Only what the GPU had to wait for is in TTFT, as the exposed stall.")
	}
	add("Load at the decision", r.load())
	if r.Benefit.Known() {
		add("Benefit, predicted", signed(r.Benefit.V)+", the delay of other requests included")
	}
	if c := r.alternative(); c != nil && c.Propensity.Known() {
		add("Probability of the alternative", percent(c.Propensity))
	}
	add("Row", r.ID)
	add("Trace", r.Trace)
	add("Request id", r.RequestID)
	return out
}

func byRevision(n int64) string {
	if n == 0 {
		return ", without coefficients"
	}
	return ", coefficients of revision " + count(n)
}

func (r *Request) load() (s string) {
	if r.Flows.Known() {
		s = listed(s, plural(int64(r.Flows.V), "flow")+" on the link")
	}
	if r.Active.Known() {
		s = listed(s, plural(int64(r.Active.V), "request")+" on the worker")
	}
	if r.StateAge.Known() && s != "" {
		s += ", as heard " + number(r.StateAge) + " before"
	}
	return s
}
