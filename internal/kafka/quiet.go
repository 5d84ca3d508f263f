package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// quietFor is how long lines of a kind are held back after one of it.
const quietFor = 10 * time.Second

// quiet logs what the client library and the embedded broker say: of each kind one
// line in quietFor, with how many were held back before it. While a disk is full or
// a broker away, each request and partition has a line.
type quiet struct {
	logger *slog.Logger
	prefix string
	mu     sync.Mutex
	kinds  map[string]*held // by format
}

// held is what became of the lines of a kind.
type held struct {
	until time.Time
	lines int
}

func newQuiet(logger *slog.Logger, prefix string) *quiet {
	if logger == nil {
		logger = slog.Default()
	}
	return &quiet{logger: logger, prefix: prefix, kinds: map[string]*held{}}
}

func (q *quiet) log(level slog.Level, format string, args ...any) {
	if !q.logger.Enabled(context.Background(), level) {
		return
	}
	before, ok := q.may(format, time.Now())
	if !ok {
		return
	}
	var more []any
	if before > 0 {
		more = []any{"held_back", before}
	}
	q.logger.Log(context.Background(), level, q.prefix+fmt.Sprintf(format, args...), more...)
}

// may says whether a line of the kind is logged now, and how many were not.
func (q *quiet) may(format string, now time.Time) (before int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h := q.kinds[format]
	if h == nil {
		h = &held{}
		q.kinds[format] = h
	}
	if now.Before(h.until) {
		h.lines++
		return 0, false
	}
	before = h.lines
	h.until, h.lines = now.Add(quietFor), 0
	return before, true
}
