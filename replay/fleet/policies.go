package fleet

import (
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// Exploration makes a policy's choices comparable: now and then another candidate
// is taken, with a probability that is logged.
type Exploration struct {
	Share float64 // of decisions that take another candidate, uniformly; 0 to 1
	Salt  uint64  // of its own draws
}

// Explore takes the greedy candidate, or with probability Share one of the
// others, and fills in every Propensity.
func (e Exploration) Explore(q *Query, greedy int) int {
	n := len(q.Candidates)
	if n == 1 || e.Share == 0 {
		for i := range q.Candidates {
			q.Candidates[i].Propensity = 0
		}
		q.Candidates[greedy].Propensity = 1
		return greedy
	}
	for i := range q.Candidates {
		q.Candidates[i].Propensity = e.Share / float64(n-1)
	}
	q.Candidates[greedy].Propensity = 1 - e.Share
	u := uniform(key(e.Salt, uint64(q.Index), 0, stageExplore))
	if u >= e.Share {
		return greedy
	}
	other := min(int(u/e.Share*float64(n-1)), n-2)
	if other >= greedy {
		other++
	}
	return other
}

// Predictor fills in every candidate's terms: the Predict of a Prior, or a
// coordinator's own model.
type Predictor func(q *Query)

// DefaultPredictor predicts by DefaultPrior.
func DefaultPredictor() Predictor {
	p := DefaultPrior()
	return p.Predict
}

// FetchAll fetches every valid prefix, as schedulers do today.
func FetchAll(predict Predictor, e Exploration) Decider {
	return func(q *Query) int {
		predict(q)
		return e.Explore(q, last(q, schema.PathFetch))
	}
}

// Never computes everything that is not resident on the request's own worker.
func Never(predict Predictor, e Exploration) Decider {
	return func(q *Query) int {
		predict(q)
		return e.Explore(q, 0)
	}
}

// SeedRule fetches the whole prefix unless max(Qg, Qn + S/Beff) + D > Qg + C, by
// the state as it was last heard.
func SeedRule(predict Predictor, e Exploration) Decider {
	return func(q *Query) int {
		predict(q)
		i := last(q, schema.PathFetch)
		if i > 0 && seedInput(&q.Candidates[i], &q.Candidates[0]).FetchLoses() {
			i = 0
		}
		return e.Explore(q, i)
	}
}

func seedInput(fetch, recompute *schema.Candidate) cost.SeedInput {
	return cost.SeedInput{
		Bytes: float64(fetch.Bytes), Bandwidth: fetch.Bandwidth,
		GPUQueue: fetch.GPUQueue, TransferQueue: fetch.TransferQueue, Restore: fetch.Restore,
		Recompute: recompute.Recompute - fetch.Recompute,
	}
}

// last is the last candidate of a path, the fullest fetch; 0 where there is none.
func last(q *Query, path schema.Path) int {
	for i := len(q.Candidates) - 1; i > 0; i-- {
		if q.Candidates[i].Path == path {
			return i
		}
	}
	return 0
}
