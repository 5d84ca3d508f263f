package app

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/replay/verdict"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// decided is a decision as the tables keep it.
type decided struct {
	nanos    int64
	ttft     float64 // NaN: not known
	decision schema.Decision
}

// decidedSQL reads what a policy may see of each decision of a window.
const decidedSQL = "SELECT id, toUnixTimestamp64Nano(start), policy, model, gpu, worker, link, toInt8(path), toInt64(ifNull(chosen, -1)), " +
	"ifNull(toInt64(tokens_prompt), -1), ifNull(toInt64(tokens_prefix), -1), ifNull(toInt64(link_flows), -1), ifNull(toFloat64(state_age), nan), ifNull(toFloat64(ttft), nan), " +
	"CAST(`candidate.path`, 'Array(Int8)'), `candidate.worker`, CAST(`candidate.tier`, 'Array(Int8)'), `candidate.links`, " +
	"`candidate.tokens_resident`, `candidate.tokens_fetched`, `candidate.tokens_computed`, `candidate.bytes`, " +
	"`candidate.gpu_queue`, `candidate.transfer_queue`, `candidate.bandwidth`, `candidate.restore`, `candidate.recompute`, `candidate.ttft`, `candidate.externality`, `candidate.propensity` " +
	"FROM requests FINAL WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano({from:Int64}, 'UTC')) AND minute < fromUnixTimestamp64Nano({until:Int64}, 'UTC') " +
	"AND start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({until:Int64}, 'UTC') AND kind = 'contract' " +
	"SETTINGS do_not_merge_across_partitions_select_final = 1"

// readDecided gives the decisions that keep names.
func readDecided(ctx context.Context, conn driver.Conn, w verdict.Window, keep func(schema.RowID) bool) (map[schema.RowID]*decided, error) {
	ctx = ch.Context(ctx, ch.WithParameters(ch.Parameters{"from": strconv.FormatInt(w.From.UnixNano(), 10), "until": strconv.FormatInt(w.Until.UnixNano(), 10)}))
	rows, err := conn.Query(ctx, decidedSQL)
	if err != nil {
		return nil, fmt.Errorf("read candidates: %w", clickhouse.Explain(err))
	}
	defer rows.Close()
	out := map[schema.RowID]*decided{}
	var r decidedRow
	for rows.Next() {
		if err := r.scan(rows); err != nil {
			return nil, fmt.Errorf("read candidates: %w", clickhouse.Explain(err))
		}
		var id schema.RowID
		copy(id[:], r.id)
		if keep(id) {
			out[id] = r.decided()
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read candidates: %w", clickhouse.Explain(err))
	}
	return out, nil
}

// decidedRow is one row of decidedSQL.
type decidedRow struct {
	id                                    string
	nanos                                 int64
	policy, model, gpu, worker, link      string
	path                                  int8
	chosen, prompt, prefix, flows         int64
	age, ttft                             float64
	paths, tiers                          []int8
	workers, links                        []string
	resident, fetched, computed           []int32
	bytes                                 []int64
	gpuQueue, transferQueue, bandwidth    []float32
	restore, recompute, ttfts, externally []float32
	propensity                            []float32
}

func (r *decidedRow) scan(rows driver.Rows) error {
	return rows.Scan(&r.id, &r.nanos, &r.policy, &r.model, &r.gpu, &r.worker, &r.link, &r.path, &r.chosen, &r.prompt, &r.prefix, &r.flows, &r.age, &r.ttft,
		&r.paths, &r.workers, &r.tiers, &r.links, &r.resident, &r.fetched, &r.computed, &r.bytes,
		&r.gpuQueue, &r.transferQueue, &r.bandwidth, &r.restore, &r.recompute, &r.ttfts, &r.externally, &r.propensity)
}

// at is element i, and missing where the array is too short.
func at[T any](of []T, i int, missing T) T {
	if i < len(of) {
		return of[i]
	}
	return missing
}

func (r *decidedRow) decided() *decided {
	count := func(n int64) schema.Count { return schema.Count{V: max(n, 0), OK: n >= 0} }
	d := &decided{nanos: r.nanos, ttft: r.ttft, decision: schema.Decision{
		Policy: r.policy, Model: r.model, GPU: r.gpu, Worker: r.worker, Link: r.link, Path: schema.Path(r.path), Chosen: count(r.chosen),
		TokensPrompt: count(r.prompt), TokensPrefix: count(r.prefix), LinkFlows: count(r.flows), StateAge: schema.Seconds{V: r.age, OK: !math.IsNaN(r.age)},
	}}
	nan := float32(math.NaN())
	seconds := func(of []float32, i int) float64 { return float64(at(of, i, nan)) }
	for i, p := range r.paths {
		d.decision.Candidates = append(d.decision.Candidates, schema.Candidate{
			Path: schema.Path(p), Worker: at(r.workers, i, ""), Tier: schema.Tier(at(r.tiers, i, 0)), Links: at(r.links, i, ""),
			TokensResident: int64(max(0, at(r.resident, i, 0))), TokensFetched: int64(max(0, at(r.fetched, i, 0))), TokensComputed: int64(max(0, at(r.computed, i, 0))), Bytes: max(0, at(r.bytes, i, 0)),
			GPUQueue: seconds(r.gpuQueue, i), TransferQueue: seconds(r.transferQueue, i), Bandwidth: seconds(r.bandwidth, i), Restore: seconds(r.restore, i),
			Recompute: seconds(r.recompute, i), TTFT: seconds(r.ttfts, i), Externality: seconds(r.externally, i), Propensity: seconds(r.propensity, i),
		})
	}
	return d
}

// blocksWithin bounds how long prefix blocks are looked for.
const blocksWithin = 2 * time.Minute

// readBlocks looks in Kafka for the prefix blocks of decisions, which the tables do
// not keep. What it did not find, and why, is in the note.
func readBlocks(ctx context.Context, s *Settings, wanted map[schema.RowID]*decided) (blocks map[schema.RowID][]int64, note string) {
	blocks = map[schema.RowID][]int64{}
	if len(s.Kafka.Brokers) == 0 {
		return blocks, "no Kafka is named, and prefix blocks are in Kafka only"
	}
	ctx, cancel := context.WithTimeout(ctx, blocksWithin)
	defer cancel()
	first, last, err := kafka.Offsets(ctx, s.Kafka, schema.TopicParts)
	if err != nil {
		return blocks, fmt.Sprintf("prefix blocks could not be read: %v", err)
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for partition, from := range first {
		if from < last[partition] {
			group.Go(func() error {
				return blocksOf(ctx, s.Kafka, partition, from, last[partition], func(p *schema.Part) {
					if id := p.RowID(); p.Kind == schema.KindContract && wanted[id] != nil && len(p.Decision.PrefixBlocks) > 0 {
						mu.Lock()
						blocks[id] = append([]int64(nil), p.Decision.PrefixBlocks...)
						mu.Unlock()
					}
				})
			})
		}
	}
	if err := group.Wait(); err != nil {
		return blocks, fmt.Sprintf("prefix blocks were read in part: %v", err)
	}
	return blocks, ""
}

func blocksOf(ctx context.Context, c kafka.Cluster, partition int, from, until int64, take func(*schema.Part)) error {
	r, err := kafka.NewPartitionReader(c, schema.TopicParts, partition, from)
	if err != nil {
		return err
	}
	defer r.Close()
	var decoder wire.Decoder
	for {
		m, err := r.Read(ctx)
		if err != nil {
			return err
		}
		for frame, err := range wire.Frames(m.Value) {
			var p schema.Part
			if err == nil {
				err = decoder.Part(frame, &p)
			}
			if err == nil { // what can not be read is told by load, as a dead letter
				take(&p)
			}
		}
		if m.Offset >= until-1 {
			return nil
		}
	}
}

// linkOf is the link that a decision could have used most bytes of.
func linkOf(d *schema.Decision) (link string, bytes float64) {
	for i := range d.Candidates {
		if c := &d.Candidates[i]; c.Path == schema.PathFetch && float64(c.Bytes) > bytes {
			link, bytes = c.Links, float64(c.Bytes)
		}
	}
	link, _, _ = strings.Cut(link, "+")
	return link, bytes
}
