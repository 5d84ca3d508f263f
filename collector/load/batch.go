package load

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// Reasons of a dead letter, as the metric counts them.
const (
	deadVersion  = "version"
	deadFraming  = "framing"
	deadDecode   = "decode"
	deadInvalid  = "invalid"
	deadConflict = "conflict"
	deadOld      = "old"
)

// batch is one round: messages turned into blocks.
type batch struct {
	cfg      Config
	now      func() time.Time
	decoder  wire.Decoder
	contents *contents
	anchors  *anchors
	metrics  *metrics

	keeps      retention
	oldest     int64 // start of the oldest part that requests keeps, for the message under way
	blocks     *blocks
	view       wire.View // scratch, as the two below
	part       schema.Part
	row        row
	joining    []joining
	dead       []wire.DeadLetter
	offsets    map[int]kafka.Message
	minutes    map[int64]struct{}
	minute     int64                      // the last of them
	kinds      [schema.KindReplay + 1]int // parts of each, not yet in the metrics
	parts      int
	bytes      int
	candidates int             // of the message under way
	taken      []kafka.Message // of this round, should it have to be taken in halves
}

// candidateBytes is what a candidate takes in the columns, though it may be a few
// bytes on the wire.
const candidateBytes = 100

// joining is a part that looks for its row.
type joining struct {
	part    schema.Part
	frame   []byte
	content uint32
	arrived int64 // Unix nanoseconds
}

func newBatch(cfg Config, now func() time.Time, m *metrics) *batch {
	return &batch{cfg: cfg, now: now, metrics: m, contents: newContents(cfg.Remember), anchors: newAnchors(cfg.Remember),
		blocks: newBlocks(), offsets: map[int]kafka.Message{}, minutes: map[int64]struct{}{}}
}

// reset begins the next round.
func (b *batch) reset() {
	b.blocks.reset()
	clear(b.joining)
	b.joining, b.dead = b.joining[:0], nil
	b.offsets, b.minutes = map[int]kafka.Message{}, map[int64]struct{}{}
	b.parts, b.bytes = 0, 0
	clear(b.taken)
	b.taken = b.taken[:0]
}

// full says whether the round is to be inserted before more is read.
func (b *batch) full(rows int) bool { return b.parts >= rows || b.bytes >= b.cfg.MaxBytes }

// message takes in the parts of m. What can not be read becomes a dead letter,
// and the rest goes on.
func (b *batch) message(m kafka.Message) {
	index := int64(0)
	now := b.now()
	b.oldest = b.keeps.oldest(schema.KindContract, now)
	for frame, err := range wire.Frames(m.Value) {
		if err != nil {
			b.broken(m, frame, index, err)
			break
		}
		content := uint32(xxhash.Sum64(frame))
		if reason, err := b.take(frame, content, now); err != nil {
			b.refuse(m, frame, index, reason, err)
		}
		b.parts++
		index++
	}
	for kind, n := range b.kinds {
		b.metrics.parts[kind].Add(float64(n))
	}
	b.kinds = [schema.KindReplay + 1]int{}
	b.bytes += max(len(m.Value), candidateBytes*b.candidates)
	b.candidates = 0
	b.taken = append(b.taken, m)
	m.Value = nil
	b.offsets[m.Partition] = m
}

// take decodes one part into the blocks. Contract spans, which most are, are
// copied out of the frame; any other part, and one with something wrong, is
// decoded whole.
func (b *batch) take(frame []byte, content uint32, now time.Time) (reason string, err error) {
	if v := &b.view; v.Contract(frame) && validView(v) && v.StartNanos >= b.oldest && !strings.HasPrefix(v.Text(wire.TextRequestID), schema.ReplayRequestIDPrefix) &&
		!b.contents.differs(v.Trace, v.Span, content) {
		b.kinds[schema.KindContract]++
		b.contract(content)
		return "", nil
	}
	p := &b.part
	if err := b.decoder.Part(frame, p); err != nil {
		return deadDecode, err
	}
	if err := valid(p); err != nil {
		return deadInvalid, err
	}
	if p.StartNanos < b.keeps.oldest(p.Kind, now) {
		return deadOld, b.keeps.tooOld(p.Kind, p.StartNanos)
	}
	if b.contents.differs(p.Trace, p.Span, content) {
		return deadConflict, errors.New("span " + p.Span.String() + " of trace " + p.Trace.String() + " came before with other content")
	}
	b.kinds[p.Kind]++
	return b.route(p, frame, content)
}

// route puts a part where its kind belongs.
func (b *batch) route(p *schema.Part, frame []byte, content uint32) (reason string, err error) {
	b.row = row{part: p, trace: p.Trace, content: content, alt: -1, chosen: -1}
	r := &b.row
	switch {
	case p.Kind == schema.KindReplay:
		b.blocks.add(shapeReplay, p.StartNanos, r)
	case p.Kind == schema.KindTransfer && isReplay(p):
		b.transfer(r, movementOf(p))
	case isReplay(p):
		b.metrics.legs.Inc()
	case p.Kind == schema.KindContract:
		return b.plainly(p, content)
	case p.Kind == schema.KindEngine && b.cfg.Anchor == AnchorEngine:
		b.anchor(shapeEngine, r, rowEngine, p.StartNanos, p.RowID(), p.RequestID)
	default:
		b.join(p, frame, content)
	}
	return "", nil
}

// plainly takes a contract part that was written in a way that a View does not
// read, such as with fields of another kind of part: as it would be written here.
func (b *batch) plainly(p *schema.Part, content uint32) (reason string, err error) {
	p.Engine, p.Transfer, p.Replay = schema.Engine{}, schema.Transfer{}, schema.Replay{}
	if !b.view.Contract(wire.AppendPart(nil, p)) || !validView(&b.view) {
		return deadDecode, errors.New("it decodes, but not into a row of requests: report this with the bytes below")
	}
	b.contract(content)
	return "", nil
}

// contract adds what the view says to requests and, where bytes moved, to
// transfers.
func (b *batch) contract(content uint32) {
	v := &b.view
	b.row = row{view: v, trace: v.Trace, content: content, alt: -1, chosen: -1}
	r := &b.row
	if c := v.Count(wire.CountChosen); c.OK {
		d := schema.Decision{Chosen: c, Candidates: v.Candidates}
		r.alt, r.chosen = d.Alternative(), int(c.V)
	}
	b.candidates += len(v.Candidates)
	if v.HasSeconds&(1<<wire.SecondsTTFT) == 0 {
		b.metrics.bare.Inc()
	}
	b.anchor(shapeContract, r, rowContract, v.StartNanos, schema.NewRowID(v.Trace, v.Span), v.Text(wire.TextRequestID))
	if moved(v) {
		b.transfer(r, movementIn(v))
	}
}

// anchor makes the part a row of requests of its own.
func (b *batch) anchor(s shape, r *row, kind uint8, start int64, id schema.RowID, requestID string) {
	r.kind, r.minute, r.id = kind, minuteStart(start), id
	b.request(s, r)
	b.anchors.note(id, requestID, anchor{r.minute, r.id, r.trace})
}

// request adds a row, or a part of one, to requests.
func (b *batch) request(s shape, r *row) {
	b.blocks.add(s, r.minute*1e9, r)
	if r.minute != b.minute || len(b.minutes) == 0 {
		b.minutes[r.minute], b.minute = struct{}{}, r.minute
	}
}

// transfer adds a row to transfers; r.id is that of the request, if known.
func (b *batch) transfer(r *row, m movement) {
	r.move = m
	b.blocks.add(shapeTransfer, r.move.start, r)
}

// join keeps a part until all anchors of the round are known. The scratch part
// is used again, so what is kept is a copy, without the slices of a decision,
// which such parts do not have.
func (b *batch) join(p *schema.Part, frame []byte, content uint32) {
	kept := *p
	kept.Decision.Candidates, kept.Decision.PrefixBlocks = nil, nil
	b.joining = append(b.joining, joining{part: kept, frame: frame, content: content, arrived: b.now().UnixNano()})
}

// settle joins what it can without a query and lets the rest wait. Engines'
// spans come first, for transfers may hang on them.
func (b *batch) settle() {
	slices.SortStableFunc(b.joining, func(x, y joining) int { return int(x.part.Kind) - int(y.part.Kind) })
	for i := range b.joining {
		j := &b.joining[i]
		if to, ok := b.anchors.find(&j.part); ok {
			b.joined(j, to)
			continue
		}
		b.wait(j)
	}
}

// wait puts a part among those that wait.
func (b *batch) wait(j *joining) {
	b.metrics.waited.Inc()
	r := row{part: &j.part, frame: j.frame, arrived: j.arrived, version: uint64(j.arrived)}
	b.blocks.add(shapeWaiting, j.part.StartNanos, &r)
	if j.part.Kind == schema.KindTransfer {
		b.transfer(&r, movementOf(&j.part))
	}
}

// joined adds a part to the row that it belongs to.
func (b *batch) joined(j *joining, to anchor) {
	r := row{part: &j.part, minute: to.minute, id: to.id, trace: to.trace, content: j.content, alt: -1, chosen: -1}
	if j.part.Kind == schema.KindTransfer {
		b.request(shapeMoved, &r)
		b.transfer(&r, movementOf(&j.part))
	} else {
		b.request(shapeEngine, &r)
	}
	b.anchors.note(j.part.RowID(), j.part.RequestID, to)
}

func (b *batch) broken(m kafka.Message, rest []byte, index int64, err error) {
	reason := deadFraming
	if errors.Is(err, wire.ErrVersion) {
		reason, index = deadVersion, -1
	}
	b.refuse(m, rest, index, reason, err)
}

func (b *batch) refuse(m kafka.Message, record []byte, index int64, reason string, err error) {
	l := wire.DeadLetter{Code: reason, Reason: err.Error(), Source: wire.SourceKafka, Topic: m.Topic,
		Partition: int64(m.Partition), Offset: m.Offset, Index: index, AtNanos: b.now().UnixNano()}
	if reason != deadDecode && reason != deadFraming && reason != deadVersion {
		l.Adapter = b.part.Adapter
	}
	l.SetRecord(record)
	b.dead = append(b.dead, l)
	b.metrics.dead.WithLabelValues(reason).Inc()
}
