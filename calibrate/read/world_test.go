package read

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// The laws of the world.
var (
	truePrefill  = cost.Prefill{C0: 0.03, C1: 2e-5, C2: 2e-10}
	trueTransfer = cost.Transfer{T0: 0.003, Link: cost.Link{B: 10e9}}
	trueRestore  = cost.Restore{D0: 0.002, D1: 5e-12}
)

const (
	trueBias, trueSlope = 0.05, 1.5
	docBias, docSlope   = 0.2, 0.8 // of the document, revision 3, that half of the requests were decided by
)

// start has a window of an hour that crosses midnight, so that two partitions are
// read. It is recent, or the tables would let its rows expire.
var (
	start = time.Now().UTC().Truncate(24 * time.Hour).Add(-30 * time.Minute)
	from  = start.UnixNano()
	until = start.Add(time.Hour).UnixNano()
)

// how says where a flow is told of.
type how int

const (
	byRequest how = iota
	byLeg
	byTransfer // of a request that has no span of its own
)

// move is a request, leg or transfer of the world; Unix nanoseconds and seconds.
type move struct {
	how                      how
	id                       [16]byte
	at                       int64
	revision                 int64
	prompt, reused           uint32
	bytes                    uint64
	flowAt, wire             float64 // seconds after start of the window
	prefill, restore         float32
	reported, queue, waiting float64
}

// world makes n moves of one policy; the flows share one link equally.
func world(seed uint64, n int) []*move {
	r := rand.New(rand.NewPCG(seed, 1))
	noise := func(s float64) float64 { return math.Exp(s * r.NormFloat64()) }
	out := make([]*move, n)
	for i := range out {
		at := 3600 * r.Float64()
		m := &move{at: from + int64(at*1e9), reused: uint32(256 * (1 + r.IntN(100))), reported: -0.2 * math.Log(1-r.Float64())}
		binary.LittleEndian.PutUint64(m.id[:], seed<<32+uint64(i)+1)
		m.prompt = m.reused + uint32(1+r.IntN(6000))
		m.bytes = uint64(m.reused) * 160_000
		m.prefill = float32(truePrefill.Seconds(float64(m.prompt-m.reused), float64(m.reused)) * noise(0.01))
		m.restore = float32(trueRestore.Seconds(float64(m.bytes)) * noise(0.01))
		m.queue, m.waiting = (trueBias+trueSlope*m.reported)*noise(0.02), trueTransfer.T0*noise(0.02)
		m.flowAt = at + m.waiting
		switch {
		case i%10 == 8:
			m.how = byLeg
		case i%10 == 9:
			m.how = byTransfer
		case i%2 == 0:
			m.revision = 3
		}
		out[i] = m
	}
	share(out, trueTransfer.Link)
	return out
}

// share runs the flows, which share the link equally at every moment.
func share(flows []*move, link cost.Link) {
	flows = slices.Clone(flows)
	slices.SortFunc(flows, func(a, b *move) int { return cmp.Compare(a.flowAt, b.flowAt) })
	left := map[*move]float64{}
	now, next := 0.0, 0
	for next < len(flows) || len(left) > 0 {
		rate := link.FlowRate(float64(len(left)))
		until, done := math.Inf(1), (*move)(nil)
		for f, bytes := range left {
			if end := now + bytes/rate; end < until {
				until, done = end, f
			}
		}
		if next < len(flows) && flows[next].flowAt < until {
			until, done = flows[next].flowAt, nil
		}
		for f := range left {
			left[f] -= rate * (until - now)
		}
		now = until
		if done == nil {
			left[flows[next]] = float64(flows[next].bytes)
			next++
			continue
		}
		done.wire = now - done.flowAt
		delete(left, done)
	}
}

// logged is the queue as the coordinator logs it.
func (m *move) logged() float32 {
	if m.revision == 0 {
		return float32(m.reported)
	}
	return float32(docBias + docSlope*m.reported)
}

func database(t testing.TB) driver.Conn {
	conn := clickhousetest.Open(t)
	_, err := migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	return conn
}

func key(id [16]byte) string { return string(id[:]) }

func store(t testing.TB, conn driver.Conn, policy string, moves []*move) {
	storeRequests(t, conn, policy, moves)
	storeLegs(t, conn, moves)
	storeTransfers(t, conn, moves)
}

func storeRequests(t testing.TB, conn driver.Conn, policy string, moves []*move) {
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO requests (minute, id, kind, start, service, policy, revision, chosen, model, gpu, worker, source_worker, tier, link, tokens_prompt, tokens_reused, bytes, gpu_queue, transfer_queue, transfer, transfer_start, exposed_stall, restore, prefill, `candidate.gpu_queue`)")
	require.NoError(t, err)
	for _, m := range moves {
		if m.how == byTransfer {
			continue
		}
		at, chosen := time.Unix(0, m.at).UTC(), uint8(1)
		if m.how == byLeg { // the request that was replayed: it computed, so it tells of no flow
			require.NoError(t, b.Append(at.Truncate(time.Minute), key(m.id), "contract", at, "router", policy, int64(0), nil, "m", "g", "w1", "", "", "",
				nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, []float32{}))
			continue
		}
		queue, waiting, wire, first := float32(m.queue), float32(m.waiting), float32(m.wire), float32(m.flowAt-float64(m.at-from)/1e9)
		stall := max(0, waiting+wire-queue)
		require.NoError(t, b.Append(at.Truncate(time.Minute), key(m.id), "contract", at, "router", policy, m.revision, &chosen, "m", "g", "w1", "store", "cpu", "spine",
			&m.prompt, &m.reused, &m.bytes, &queue, &waiting, &wire, &first, &stall, &m.restore, &m.prefill, []float32{9, m.logged()}))
	}
	require.NoError(t, b.Send())
}

func storeLegs(t testing.TB, conn driver.Conn, moves []*move) {
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO replays (start, trace, span, id, path, tier, link, worker, source_worker, bytes, transfer_queue, transfer, transfer_start)")
	require.NoError(t, err)
	for _, m := range moves {
		if m.how == byLeg {
			waiting, wire, first := float32(m.waiting), float32(m.wire), float32(m.flowAt-float64(m.at-from)/1e9)
			require.NoError(t, b.Append(time.Unix(0, m.at).UTC(), key(m.id), uint64(m.at), key(m.id), "fetch", "cpu", "spine", "w1", "store", &m.bytes, &waiting, &wire, &first))
		}
	}
	require.NoError(t, b.Send())
}

// storeTransfers also tells of every other flow again, as a connector's spans
// would.
func storeTransfers(t testing.TB, conn driver.Conn, moves []*move) {
	b, err := conn.PrepareBatch(t.Context(), "INSERT INTO transfers (start, trace, span, id, origin, operation, tier, source, worker, link, exact, bytes, queue, duration, joined)")
	require.NoError(t, err)
	for _, m := range moves {
		queue, first := float32(m.waiting), time.Unix(0, from+int64(m.flowAt*1e9)).UTC()
		origins := map[how][]string{byRequest: {"contract", "transfer"}, byLeg: {"replay"}, byTransfer: {"transfer"}}
		for i, origin := range origins[m.how] {
			id := m.id
			if m.how == byLeg {
				id = [16]byte{}
			}
			require.NoError(t, b.Append(first, key(m.id), uint64(m.at)+uint64(i), key(id), origin, "load", "cpu", "store", "w1", "spine", uint8(1), &m.bytes, &queue, &m.wire, uint8(1)))
		}
	}
	require.NoError(t, b.Send())
}
