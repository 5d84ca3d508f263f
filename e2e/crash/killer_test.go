package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kvwhatif/kvwhatif/collector/load"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
)

// kill is one kill -9, and what was under way.
type kill struct {
	Seconds  float64 `json:"seconds"` // since the first span was sent
	Victim   string  `json:"victim"`
	InFlight int64   `json:"spans_in_flight"` // sent, and not yet answered
	Redo     int     `json:"parts_read_again"`
	Resent   int64   `json:"spans_resent"` // until the next kill, for an export had failed
	Down     float64 `json:"seconds_down"` // until it was up again

	victim *victim
	resent int64
	redo   map[int][2]int64 // by partition: offsets from, up to
}

// plan is how often, whom and when.
type plan struct {
	kills      int
	inTurn     bool // each victim once, in a random order, and then again
	least, gap time.Duration
}

const (
	beginWait = 2 * time.Second         // for an export to begin
	underWay  = 4 * time.Millisecond    // into it comes the kill, at most
	askLimit  = 1500 * time.Millisecond // for one question to a broker that may be away
)

// killer kills by a seed.
type killer struct {
	rig    *rig
	sender *sender
	plan   plan
	rand   *rand.Rand
	say    func(format string, args ...any)
	begun  time.Time
	kills  []*kill
	atLast int64              // offsets that load had reached at the last kill, in all
	read   map[string]float64 // parts read, by loader's life as last seen
}

func newKiller(r *rig, s *sender, p plan, say func(string, ...any)) *killer {
	return &killer{rig: r, sender: s, plan: p, rand: rand.New(rand.NewPCG(s.story.seed, 1)), say: say, begun: time.Now(), read: map[string]float64{}}
}

// run kills as often as planned. It returns once all are up again.
func (k *killer) run(ctx context.Context) error {
	var turn []int
	for len(k.kills) < k.plan.kills {
		next := time.Now().Add(k.plan.least + time.Duration(k.rand.Int64N(int64(k.plan.gap))))
		if err := k.await(ctx, func() error { return until(next) }); err != nil {
			return err
		}
		if len(turn) == 0 {
			turn = k.rand.Perm(len(k.rig.victims))
		}
		v := k.rig.victims[turn[0]]
		turn = turn[1:]
		up := func() error { return errors.Join(v.up(), k.working(ctx, v)) }
		if !k.plan.inTurn { // one that is up, whatever else is down
			up = func() error {
				v = k.rig.victims[k.rand.IntN(len(k.rig.victims))]
				return v.up()
			}
		}
		if err := k.await(ctx, up); err != nil {
			return err
		}
		if err := k.strike(ctx, v); err != nil {
			return err
		}
	}
	if err := k.await(ctx, k.rig.allUp); err != nil {
		return err
	}
	k.attribute()
	return k.rig.fell()
}

func (k *killer) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func until(next time.Time) error {
	if left := time.Until(next); left > 0 {
		return fmt.Errorf("it is %v too early", left)
	}
	return nil
}

// await waits until there is nothing more to say, and notes who is up again.
func (k *killer) await(ctx context.Context, up func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		k.noteBack()
		err := up()
		if err == nil {
			return k.rig.fell()
		}
		if k.pause(ctx, 5*tick) != nil {
			return fmt.Errorf("it takes too long: %w", err)
		}
	}
}

// working says what is missing until the end of v has load read something again:
// that it has read since the last kill, and not committed all.
func (k *killer) working(ctx context.Context, v *victim) error {
	if !v.rereads {
		return nil
	}
	next := k.look()
	if total(next) <= k.atLast {
		return errors.New("load has read nothing since the last kill")
	}
	if len(k.uncommitted(ctx, next)) == 0 {
		return errors.New("load has committed all that it has read")
	}
	return nil
}

func total(next map[int]int64) (n int64) {
	for _, offset := range next {
		n += offset
	}
	return n
}

// strike kills v while something is under way, and notes what.
func (k *killer) strike(ctx context.Context, v *victim) error {
	next := k.look()
	k.atLast = max(k.atLast, total(next))
	var redo map[int][2]int64
	if v.broker { // nobody can be asked afterwards
		redo = k.uncommitted(ctx, next)
	}
	select {
	case <-k.sender.begun: // an old word
	default:
	}
	select {
	case <-k.sender.begun:
		time.Sleep(time.Duration(k.rand.Int64N(int64(underWay))))
	case <-time.After(beginWait): // all wait for what is down: kill all the same
	case <-ctx.Done():
		return ctx.Err()
	}
	x := &kill{Victim: v.name, victim: v, InFlight: k.sender.inFlight.Load(), Down: -1, redo: redo}
	if v.rereads && !v.broker {
		defer func() { x.redo = k.uncommitted(ctx, next) }() // what nobody can commit any more
	}
	x.Seconds, x.resent = time.Since(k.begun).Seconds(), k.sender.failed.Load()
	if v.kill() != nil {
		return nil // it went by itself a moment ago, as a database does with its holder
	}
	k.attribute()
	k.kills = append(k.kills, x)
	k.say("kill %3d at %6.1f s: %-16s %4d spans in flight", len(k.kills), x.Seconds, v.name, x.InFlight)
	return nil
}

// attribute gives the last kill the spans that were sent again since.
func (k *killer) attribute() {
	if n := len(k.kills); n > 0 {
		k.kills[n-1].Resent = k.sender.failed.Load() - k.kills[n-1].resent
	}
}

// noteBack notes how long victims were down that are up again.
func (k *killer) noteBack() {
	for _, x := range k.kills {
		if x.Down < 0 && x.victim.up() == nil {
			x.Down = time.Since(k.begun).Seconds() - x.Seconds
		}
	}
}

// look asks the loaders how far they are: the largest offset of each partition.
func (k *killer) look() map[int]int64 {
	next := map[int]int64{}
	for _, l := range k.rig.loaders {
		at := l.metrics()
		p, err := scrape(at)
		if err != nil {
			continue
		}
		life := fmt.Sprintf("%s %d", at, l.keeper.pid())
		k.read[life] = max(k.read[life], p.parts)
		for partition, offset := range p.next {
			next[partition] = max(next[partition], offset)
		}
	}
	return next
}

// uncommitted is what was inserted and would be read again.
func (k *killer) uncommitted(ctx context.Context, next map[int]int64) map[int][2]int64 {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	committed, err := kafka.Committed(ctx, kafka.Brokers(k.rig.kafka), load.Group, schema.TopicParts)
	if err != nil {
		return nil
	}
	redo := map[int][2]int64{}
	for partition, to := range next {
		if from := max(0, committed[partition]); from < to {
			redo[partition] = [2]int64{from, to}
		}
	}
	return redo
}

// settle counts the parts in what was read again, out of the topic itself, and
// gives the parts that it has in all.
func (k *killer) settle(ctx context.Context) (parts int, err error) {
	err = readTopic(ctx, k.rig.kafka, schema.TopicParts, func(m kafka.Message) {
		n := partsIn(m.Value)
		parts += n
		for _, x := range k.kills {
			if r, ok := x.redo[m.Partition]; ok && m.Offset >= r[0] && m.Offset < r[1] {
				x.Redo += n
			}
		}
	})
	return parts, err
}
