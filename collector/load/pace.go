package load

import (
	"sync"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// ClickHouse's codes that say how the inserts should be.
const (
	codeMemory       = 241 // smaller
	codeTooManyParts = 252 // fewer
)

const (
	longestBetween = 10 * time.Second // between two rounds
	fewestRows     = 1000             // of a full round
	calmFor        = 20               // inserts before a step back to the settings
)

// pace says how far apart rounds are, and how large. A server that is slow or
// has too many parts gets fewer inserts, and so larger ones; one that has too
// little memory gets smaller ones. Its methods may be called at once.
type pace struct {
	mu   sync.Mutex
	cfg  Config
	gap  time.Duration // that refusals have led to; 0: none
	took time.Duration // of the last insert
	rows int
	calm int // inserts since the last refusal or step
}

func newPace(cfg Config) *pace { return &pace{cfg: cfg, rows: cfg.MaxRows} }

// between is the least time from the end of a round to the next.
func (p *pace) between() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(longestBetween, max(p.cfg.Linger, p.gap, min(p.took, 20*p.cfg.Linger)))
}

// mostRows is how many parts a round has at most.
func (p *pace) mostRows() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows
}

// refused hears of a failed insert, and gives ClickHouse's code for it.
func (p *pace) refused(err error) int {
	code := clickhouse.Classify(err).Code
	p.mu.Lock()
	defer p.mu.Unlock()
	switch code {
	case codeTooManyParts:
		p.gap, p.calm = min(longestBetween, max(2*p.gap, 10*p.cfg.Linger, time.Second)), 0
	case codeMemory:
		p.rows, p.calm = max(p.rows/2, min(fewestRows, p.cfg.MaxRows)), 0
	}
	return code
}

// inserted hears of one that went well. After some of them the pace goes a step
// back towards the settings.
func (p *pace) inserted(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = took
	if p.calm++; p.calm < calmFor {
		return
	}
	p.calm = 0
	if p.gap /= 2; p.gap < p.cfg.Linger {
		p.gap = 0
	}
	p.rows = min(p.cfg.MaxRows, p.rows+max(1, p.rows/4))
}
