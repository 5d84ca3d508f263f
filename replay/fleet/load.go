package fleet

import "github.com/kvwhatif/kvwhatif/schema"

// Load is what a run has asked of its fleet so far.
type Load struct {
	Eligible    float64 // of the link: bytes/s over B if every fetchable prefix were fetched
	Offered     float64 // of the link: bytes/s over B as decided
	GPU         float64 // restoring and prefill seconds over worker seconds
	Kappa       float64 // recompute time of all that was eligible over its lone wire time
	DecodeDelay float64 // by which prefills held up decodes, summed, seconds
}

// tally is the sums behind Load; replays are not in it.
type tally struct {
	until     float64 // last arrival
	eligible  float64 // bytes
	moved     float64 // bytes
	gpu       float64 // seconds
	recompute float64 // seconds
}

func (s *Sim) count(a *arrival, j *job) {
	l := &s.tally
	l.until = a.at
	l.moved += j.bytes
	l.gpu += j.restore + j.prefill
	for _, o := range s.scratch {
		if o.path == schema.PathFetch && !o.half {
			l.eligible += float64(o.fetched) * s.cfg.BytesPerToken
			l.recompute += s.ladder.at(float64(o.resident+o.fetched)) - s.ladder.at(float64(o.resident))
		}
	}
}

// Load gives the loads from the run's start to the last arrival.
func (s *Sim) Load() Load {
	sum, b := &s.tally, s.cfg.Link.Law.B
	l := Load{DecodeDelay: s.core.decodeDelay}
	if sum.until > 0 {
		l.Eligible, l.Offered = sum.eligible/sum.until/b, sum.moved/sum.until/b
		l.GPU = sum.gpu / sum.until / float64(s.cfg.Workers)
	}
	if sum.eligible > 0 {
		l.Kappa = sum.recompute * b / sum.eligible
	}
	return l
}
