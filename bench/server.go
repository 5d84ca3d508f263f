package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// serverCost asks what ClickHouse spends on a row, for that bounds the whole path.
// Each line leaves out more than the one before.
func (b *bench) serverCost(ctx context.Context) (*Table, error) {
	t := &Table{ID: "S1", Title: "what ClickHouse spends on a row of requests", First: "what is done",
		Columns: []string{"server CPU µs/row", "rows/server CPU-s", "least", "most"},
		Notes: []string{
			fmt.Sprintf("As P2, %d rounds. A line leaves out more than the one before, so what it saves is what that costs.", b.loadRounds()),
			"Rollups: slices and worst of the minutes that were touched, made again while rows come. Merges: of all tables. What is left is inserting.",
			"The ratio is to 10 µs, of which 100,000 rows a second keep one core busy.",
		}}
	for _, s := range b.shapes {
		if err := b.serverCostOf(ctx, s, t); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (b *bench) serverCostOf(ctx context.Context, s asked, t *Table) error {
	broker, err := b.freshBroker(ctx, usualPartitions)
	if err != nil {
		return err
	}
	requests := b.spans / s.share / b.perReq
	r, err := b.requestsUntilNow(s.Shape, b.perReq, requests)
	if err != nil {
		return err
	}
	if err := rig.Fill(ctx, broker, r, requests); err != nil {
		return err
	}
	l := rig.Loading{Dir: b.dir, Program: b.kvwhatif, Broker: broker, Rows: int64(requests) * int64(b.perReq)}
	for _, c := range []struct {
		name             string
		rollups, merging bool
	}{{"all", true, true}, {"without rollups", false, true}, {"without rollups and merges", false, false}} {
		var cost []float64
		for i := range b.loadRounds() {
			b.say("S1 %s: round %d of %d, %s", s.Name, i+1, b.loadRounds(), c.name)
			l.NoRollups = !c.rollups
			used, err := b.serverRound(ctx, l, c.merging)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			cost = append(cost, used.Seconds()*1e6/float64(l.Rows))
		}
		m := median(cost)
		t.Rows = append(t.Rows, Row{Name: s.Name + ", " + c.name, Ratio: m / 10, To: "10 µs",
			Values: []Number{m, 1e6 / m, Number(1e6 / max1(cost)), Number(1e6 / min1(cost))}})
	}
	return nil
}

func (b *bench) serverRound(ctx context.Context, l rig.Loading, merging bool) (time.Duration, error) {
	d, err := rig.StartDatabase(ctx, b.dir)
	if err != nil {
		return 0, err
	}
	defer d.End()
	if !merging {
		if err := d.Conn.Exec(ctx, "SYSTEM STOP MERGES"); err != nil {
			return 0, fmt.Errorf("stop merges: %w", err)
		}
	}
	l.Database = d
	got, err := rig.Load(ctx, l)
	return got.Server, err
}
