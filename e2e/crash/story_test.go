package crash

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/kvwhatif/kvwhatif/schema"
)

// piece is one span of a request's story.
type piece uint8

const (
	pieceContract  piece = iota
	pieceEngine          // vLLM's, which may bring the model and so move the request to another slice
	pieceLookup          // LMCache's
	pieceLookup2         // a second one, which tells nothing that the first did not
	pieceLoad            // a connector's, straight into Kafka: bytes that moved
	pieceLoad2           // a second one: the bytes add up
	pieceLeg             // a replay of the request
	pieceLegEngine       // the engine's span of that leg, which is in no table
	pieceLegLookup       // LMCache's of that leg
	pieceStray           // an engine's span of a request that nobody decided
	piecePoison          // a span that can not be true
	pieceBad             // a part in Kafka that can not be true
	pieceGarbage         // a message in Kafka that is none
)

// item is a piece of request n.
type item struct {
	n     int32
	piece piece
}

// story makes requests out of a seed. Request n is always the same, whoever asks
// for it: the sender to send it, and the recount to add it up.
//
// Seconds are multiples of 1/1024, which a Float32 holds exactly, so that sums are
// exact in any order.
type story struct {
	seed uint64
	base time.Time
	step func(n int) time.Duration // of the sender's clock, beside 40 ms a request; nil: none
}

const requestGap = 40 * time.Millisecond

// draw is a number that depends on the seed, the request and what it is for.
func (s *story) draw(n int, what uint64) uint64 {
	x := s.seed*0x9e3779b97f4a7c15 ^ uint64(n)*0xbf58476d1ce4e5b9 ^ what*0x94d049bb133111eb
	for range 2 {
		x ^= x >> 30
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

// one is true for one request in so many.
func (s *story) one(in uint64, n int, what uint64) bool { return s.draw(n, what)%in == 0 }

// ticks is from lo up to hi 1024ths of a second.
func (s *story) ticks(n int, what, lo, hi uint64) float64 {
	return float64(lo+s.draw(n, what)%(hi-lo)) / 1024
}

// What the numbers are drawn for.
const (
	drawPath = iota + 1
	drawPrefix
	drawModel
	drawTTFT
	drawQueue
	drawStall
	drawRestore
	drawPrefill
	drawBytes
	drawTransfer
	drawChosenTTFT
	drawOtherTTFT
	drawExternality
	drawShape
	drawEngine
	drawJoin
	drawLookup
	drawLoad
	drawLeg
	drawStray
	drawPoison
	drawGarbage
	drawIDs // and the pieces after it
)

func (s *story) start(n int) time.Time {
	at := s.base.Add(time.Duration(n) * requestGap)
	if s.step != nil {
		at = at.Add(s.step(n))
	}
	return at
}

// part is a piece as load reads it.
func (s *story) part(it item) *schema.Part {
	n := int(it.n)
	p := &schema.Part{Service: service, StartNanos: s.start(n).UnixNano()}
	s.identify(p, n, it.piece)
	switch it.piece {
	case pieceContract:
		s.contract(p, n)
	case pieceLeg:
		s.leg(p, n)
	case pieceEngine, pieceLegEngine, pieceStray:
		s.engine(p, n)
	case pieceLookup, pieceLookup2, pieceLegLookup:
		s.lookup(p, n, it.piece)
	case pieceLoad, pieceLoad2:
		s.load(p, n, it.piece)
	case piecePoison:
		s.contract(p, n)
	}
	p.EndNanos = max(p.EndNanos, p.StartNanos)
	return p
}

const service = "crash"

// traceOf and spanOf are of request n's pieces: those of the contract span are the
// anchor's.
func (s *story) traceOf(n int, of piece) (t schema.TraceID) {
	binary.BigEndian.PutUint64(t[:8], s.draw(n, drawIDs+2*uint64(of))|1)
	binary.BigEndian.PutUint64(t[8:], uint64(n)+1)
	return t
}

func (s *story) spanOf(n int, of piece) (id schema.SpanID) {
	binary.BigEndian.PutUint64(id[:], s.draw(n, drawIDs+1+2*uint64(of))|1)
	return id
}

// identify gives ids such that a part finds its request by its parent, by its
// request id from another trace, or by its trace alone.
func (s *story) identify(p *schema.Part, n int, of piece) {
	p.Trace, p.Span = s.traceOf(n, pieceContract), s.spanOf(n, of)
	request := fmt.Sprintf("req-%d", n)
	switch of {
	case pieceContract:
		p.RequestID = request
	case pieceLeg, pieceLegEngine, pieceLegLookup:
		p.Trace, p.RequestID = s.traceOf(n, pieceLeg), schema.ReplayRequestIDPrefix+request
	case pieceStray:
		p.Trace, p.RequestID = s.traceOf(n, of), "stray-"+request
	case piecePoison, pieceBad, pieceGarbage:
		p.Trace, p.RequestID = s.traceOf(n, of), fmt.Sprintf("poison-%d-%d", n, of)
	default:
		switch s.draw(n, drawJoin+uint64(of)<<8) % 3 {
		case 0:
			p.Parent = s.spanOf(n, pieceContract)
		case 1:
			p.Trace, p.RequestID = s.traceOf(n, of), request
		}
	}
}

func (s *story) model(n int) string { return fmt.Sprintf("model-%d", s.draw(n, drawModel)%2) }

// modelFromEngine says whether only the engine's span names the model.
func (s *story) modelFromEngine(n int) bool { return s.one(3, n, drawModel<<8) }

var prefixes = [...]int64{400, 512, 2000, 8000, 30_000, 50_000}

func (s *story) contract(p *schema.Part, n int) {
	p.Kind, p.Adapter = schema.KindContract, "kvreuse"
	d, o := &p.Decision, &p.Observed
	d.Policy, d.GPU, d.Worker = fmt.Sprintf("policy-%d", n%2), "gpu", fmt.Sprintf("w%d", n%4)
	d.Path = schema.Path(1 + s.draw(n, drawPath)%4)
	if !s.modelFromEngine(n) {
		d.Model = s.model(n)
	}
	if i := int(s.draw(n, drawPrefix) % 7); i < len(prefixes) {
		d.TokensPrefix, d.TokensPrompt = schema.Some(prefixes[i]), schema.Some(prefixes[i]+100)
		d.TokensReused = schema.Some(prefixes[i] / 2)
	}
	o.GPUQueue, o.ExposedStall = schema.Some(s.ticks(n, drawQueue, 0, 200)), schema.Some(s.ticks(n, drawStall, 0, 100))
	o.Restore, o.Prefill = schema.Some(s.ticks(n, drawRestore, 0, 20)), schema.Some(s.ticks(n, drawPrefill, 10, 400))
	if !s.one(32, n, drawTTFT<<8) {
		o.TTFT = schema.Some(s.ticks(n, drawTTFT, 20, 1500))
	}
	if d.Path == schema.PathFetch {
		d.SourceTier, d.SourceWorker, d.Link = schema.TierCPU, "w9", fmt.Sprintf("rack-%d", n%3)
		o.Bytes, o.Transfer = schema.Some(int64(1+s.draw(n, drawBytes)%64)<<20), schema.Some(s.ticks(n, drawTransfer, 1, 300))
		o.TransferQueue, o.TransferStart = schema.Some(1.0/1024), schema.Some(1.0/512)
	}
	if !s.one(16, n, drawShape) {
		s.candidates(p, n)
	}
	p.EndNanos = p.StartNanos + int64(time.Second)
}

// candidates gives the choice, what it is weighed against, and a third one.
func (s *story) candidates(p *schema.Part, n int) {
	d := &p.Decision
	other, bytes := schema.PathRecompute, int64(-1)
	if d.Path == schema.PathRecompute {
		other, bytes = schema.PathFetch, 1<<20
	}
	nan := math.NaN()
	one := schema.Candidate{Path: d.Path, Worker: d.Worker, TTFT: s.ticks(n, drawChosenTTFT, 10, 900), Externality: nan, Propensity: 0.5,
		TokensResident: -1, TokensFetched: -1, TokensComputed: -1, Bytes: -1, GPUQueue: nan, TransferQueue: nan, Bandwidth: nan, Restore: nan, Recompute: nan}
	two, three := one, one
	two.Path, two.Bytes, two.TTFT, two.Propensity = other, bytes, s.ticks(n, drawOtherTTFT, 10, 900), 0.25
	three.Path, three.Worker, three.TTFT, three.Propensity = schema.PathRoute, "w8", 60, 0.25
	if d.Path == schema.PathFetch {
		one.Bytes, one.TokensFetched = p.Observed.Bytes.V, d.TokensPrefix.Or(0)
		one.Links, one.Tier, one.Externality = d.Link, schema.TierCPU, s.ticks(n, drawExternality, 0, 60)
	}
	if bytes > 0 {
		two.Externality = s.ticks(n, drawExternality, 0, 60)
	}
	d.Candidates, d.Chosen = []schema.Candidate{one, two, three}, schema.Some(int64(0))
}

// leg replays the alternative.
func (s *story) leg(p *schema.Part, n int) {
	s.contract(p, n)
	p.Kind = schema.KindReplay
	p.Decision.Candidates, p.Decision.Chosen = nil, schema.Count{}
	p.Replay = schema.Replay{Of: s.traceOf(n, pieceContract), OfSpan: s.spanOf(n, pieceContract), Plan: "plan", Path: schema.PathRecompute,
		Inclusion: 0.25, Leg: schema.Leg(1 + n%2), Batch: "b", CostGPU: schema.Some(s.ticks(n, drawLeg, 1, 50))}
}

func (s *story) engine(p *schema.Part, n int) {
	p.Kind, p.Adapter = schema.KindEngine, "vllm"
	p.Engine = schema.Engine{Model: s.model(n), TokensPrompt: schema.Some(int64(100 + n%1000)), TTFT: schema.Some(s.ticks(n, drawEngine, 20, 1500))}
	p.EndNanos = p.StartNanos + int64(2*time.Second)
}

// lookup takes a multiple of 1/512 s, which is a whole number of nanoseconds.
func (s *story) lookup(p *schema.Part, n int, of piece) {
	p.Kind, p.Adapter = schema.KindTransfer, "lmcache"
	took := 1 + s.draw(n, drawLookup+uint64(of)<<8)%50
	p.EndNanos = p.StartNanos + int64(took)*1_953_125
	p.Transfer = schema.Transfer{Operation: "lookup", Tokens: schema.Some(int64(256 * took)), Tier: schema.TierCPU, Duration: schema.Some(float64(took) / 512)}
}

func (s *story) load(p *schema.Part, n int, of piece) {
	p.Kind, p.Adapter = schema.KindTransfer, "crash"
	p.Transfer = schema.Transfer{Operation: "load", Tier: schema.TierDisk, Source: "w9", Link: fmt.Sprintf("rack-%d", n%3),
		Tokens: schema.Some(int64(64)), Bytes: schema.Some(int64(1+s.draw(n, drawBytes+uint64(of)<<8)%512) << 10),
		Queue: schema.Some(1.0 / 1024), Duration: schema.Some(s.ticks(n, drawLoad+uint64(of)<<8, 1, 100))}
	p.EndNanos = p.StartNanos + int64(time.Second)
}
