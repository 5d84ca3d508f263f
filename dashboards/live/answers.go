package live

import (
	"context"
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
)

// answer is a page that was made.
type answer struct {
	data report.Data
	page []byte
	etag string
}

// maxAnswers is how many pages are kept: many browsers ask for few of them.
const maxAnswers = 32

// dear is for how many times as long as it took to read an answer is kept: large
// windows of a large fleet are read seldom, however many look at them.
const dear = 10

// answers keep what was read for as long as the window stays the same, or dear
// times as long as reading it took; and let only one read at a time: a page that
// is open in many browsers asks the database once, and many different pages ask
// one after the other.
type answers struct {
	mu   sync.Mutex
	kept map[choice]kept
	turn chan struct{}
}

type kept struct {
	*answer
	until time.Time     // end of the window
	cost  time.Duration // of reading it
}

func (a *answers) find(c choice, until time.Time) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if k, ok := a.kept[c]; ok && !until.After(k.until.Add(dear*k.cost)) {
		return k.answer
	}
	return nil
}

func (a *answers) keep(c choice, k kept) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil || len(a.kept) >= maxAnswers {
		a.kept = map[choice]kept{}
	}
	a.kept[c] = k
}

// get gives what is kept, or reads it.
func (a *answers) get(ctx context.Context, c choice, until time.Time, read func(context.Context) (*answer, error)) (*answer, error) {
	if found := a.find(c, until); found != nil {
		return found, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if found := a.find(c, until); found != nil {
		return found, nil
	}
	made, err := read(ctx)
	if err != nil {
		return nil, err
	}
	cost := time.Duration(made.data.Measured.Wall * float64(time.Second))
	a.keep(c, kept{made, until, cost})
	return made, nil
}
