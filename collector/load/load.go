package load

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
)

const (
	queued       = 64                     // messages fetched ahead at most
	queuedBytes  = 16 << 20               // of those messages; a larger one is fetched alone
	remakeTick   = 200 * time.Millisecond // between two looks at what is due
	remakeChunk  = 16                     // minutes made again by one query
	positionsGap = 5 * time.Second        // between two writes of positions
	commitWait   = 10 * time.Second       // for one commit
	finalWait    = 10 * time.Second       // for the last flush of a Run
)

// Options are what the program, not its operator, gives a Loader. Conn reads and
// writes; of several shards, through the tables over all. Topic is that of Source.
// The rest may be zero.
type Options struct {
	Conn     driver.Conn
	Shards   []driver.Conn // to each shard's own tables, in an order that never changes; none: Conn is to the only ones
	Source   Source
	Dead     Producer
	Topic    string // for positions
	Logger   *slog.Logger
	Registry prometheus.Registerer
	Now      func() time.Time
}

// Loader brings parts from Kafka into ClickHouse. Its methods may be called at
// once; Run may be called once.
type Loader struct {
	cfg       Config
	opts      Options
	log       *slog.Logger
	now       func() time.Time
	metrics   *metrics
	store     *store
	batch     *batch
	minutes   *minutes
	positions *positions
	sweeper   *sweeper
	pace      *pace
	keeps     *retention
	ahead     *semaphore.Weighted // bytes of messages fetched ahead
	known     atomic.Bool         // ClickHouse has taken our password: what it says of it later may pass

	remaking chan struct{} // full while minutes are made again; guards the rest
	commits  map[int]kafka.Message
	covered  map[int]int64 // offsets committed, not yet in the table positions
	positAt  time.Time
}

// New makes a Loader. The tables must be there (internal/migrate).
func New(cfg Config, opts Options) (*Loader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("configure load: %w", err)
	}
	if opts.Conn == nil || opts.Source == nil || opts.Dead == nil {
		return nil, errors.New("configure load: it needs a ClickHouse connection, a source and a producer for dead letters")
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Topic == "" {
		opts.Topic = schema.TopicParts
	}
	m, err := newMetrics(opts.Registry)
	if err != nil {
		return nil, fmt.Errorf("configure load: register metrics: %w", err)
	}
	l := &Loader{cfg: cfg, opts: opts, log: opts.Logger, now: opts.Now, metrics: m,
		store: &store{conn: opts.Conn, shards: opts.Shards, metrics: m}, batch: newBatch(cfg, opts.Now, m), minutes: newMinutes(),
		positions: newPositions(), pace: newPace(cfg), ahead: semaphore.NewWeighted(queuedBytes), remaking: make(chan struct{}, 1), commits: map[int]kafka.Message{}, covered: map[int]int64{}}
	l.batch.blocks.over(l.shards())
	l.sweeper, l.keeps = newSweeper(l), &l.batch.keeps
	return l, nil
}

// Run loads until ctx ends, and then returns nil after it has covered and
// committed what it had inserted. Its error is one that waiting does not mend.
func (l *Loader) Run(ctx context.Context) error {
	if err := l.begin(ctx); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	messages := make(chan kafka.Message, queued)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error { return l.fetch(inner, messages) })
	group.Go(func() error { return l.rounds(inner, messages) })
	group.Go(func() error {
		return every(inner, remakeTick, func(ctx context.Context) error { return l.remake(ctx, 0, false) })
	})
	group.Go(func() error { return every(inner, l.cfg.SweepEvery, l.sweeper.tick) })
	group.Go(func() error { return every(inner, retentionEvery, l.readRetention) })
	err := group.Wait()
	if ctx.Err() != nil {
		final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalWait)
		defer cancel()
		if err := l.Flush(final); err != nil {
			l.log.Warn("load: what was inserted last is not committed; it will be read again", "error", err)
		}
		return nil
	}
	return fmt.Errorf("load: %w", err)
}

// begin reads how long the tables keep rows, and where earlier loads came to.
func (l *Loader) begin(ctx context.Context) error {
	if err := l.readRetention(ctx); err != nil {
		return err
	}
	l.known.Store(true)
	if l.cfg.FromBeginning {
		return nil
	}
	var next map[int]int64
	err := l.again(ctx, "positions", clickhouse.IsRetryable, func(ctx context.Context) (err error) {
		next, err = readPositions(ctx, l.opts.Conn, l.opts.Topic)
		return err
	})
	if err != nil {
		return err
	}
	l.positions.advance(next)
	return nil
}

func (l *Loader) readRetention(ctx context.Context) error {
	return l.again(ctx, "retention", clickhouse.IsRetryable, func(ctx context.Context) error { return l.keeps.read(ctx, l.opts.Conn) })
}

// fetch reads ahead.
func (l *Loader) fetch(ctx context.Context, to chan<- kafka.Message) error {
	for {
		var m kafka.Message
		err := l.again(ctx, "fetch", kafka.IsRetryable, func(ctx context.Context) (err error) {
			m, err = l.opts.Source.Fetch(ctx)
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("fetch parts: %w", err)
		}
		if l.ahead.Acquire(ctx, held(m)) != nil {
			return nil
		}
		select {
		case to <- m:
		case <-ctx.Done():
			return nil
		}
	}
}

// held is what a message counts for while it waits for its round.
func held(m kafka.Message) int64 { return min(queuedBytes, int64(len(m.Value))) }

// again is the retrying of every step, with a word about it.
func (l *Loader) again(ctx context.Context, name string, retryable func(error) bool, step func(context.Context) error) error {
	note := func(err error) {
		l.metrics.retries.WithLabelValues(name).Inc()
		l.log.Warn("load: "+name+" failed, trying again", "error", err)
	}
	patient := func(err error) bool { return retryable(err) || l.known.Load() && clickhouse.IsUnknownUser(err) }
	return again(ctx, note, patient, step)
}

// every calls step at once and then after each pause, until ctx ends.
func every(ctx context.Context, pause time.Duration, step func(context.Context) error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
