package read

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kvwhatif/kvwhatif/schema/cost"
)

//go:embed demand.sql
var demandSQL string

// Route is what a fetch would come over.
type Route struct{ Tier, Link string }

// Eligible is the demand of a window: what could have been fetched, fetched or not.
type Eligible struct {
	Requests int64    // decided in the window, whatever was open to them
	Services []string // service.name of those who decided
	Routes   map[Route][]cost.Demand
}

// Demand reads the eligible demand of decisions made in [from, until), Unix
// nanoseconds. A request counts once, with the fullest fetch that was open to it,
// as predicted when it was decided. It is in the table only after its first token,
// so let until lie behind now by more than a TTFT.
func Demand(ctx context.Context, conn driver.Conn, f Filter, from, until int64) (Eligible, error) {
	out := Eligible{Routes: map[Route][]cost.Demand{}}
	if err := checkWindow(from, until); err != nil {
		return out, fmt.Errorf("read eligible demand: %w", err)
	}
	kept, services := names{}, map[string]bool{}
	rows, err := conn.Query(ctx, demandSQL, f.arguments(from, until)...)
	err = each(rows, err, func(rows driver.Rows) error {
		var o open
		if err := o.scan(rows); err != nil {
			return err
		}
		out.Requests++
		if !services[o.service] {
			services[o.service] = true
			out.Services = append(out.Services, o.service)
		}
		if d, ok := o.demand(); ok {
			route := Route{kept.one(o.tier), kept.one(o.link)}
			out.Routes[route] = append(out.Routes[route], d)
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("read eligible demand: %w", err)
	}
	return out, nil
}

// open is a row of demand.sql: a decision with the fetch that was open to it.
type open struct {
	fetch               uint32 // 0: none was
	service, tier, link string
	bytes               float64
	whole, suffix       float64 // seconds to compute all of the prompt, and what a fetch leaves
	queue               float64 // of the GPU that would recompute, seconds
	imposed             float64 // by the recompute on others, seconds
}

func (o *open) scan(rows driver.Rows) error {
	return rows.Scan(&o.fetch, &o.service, &o.tier, &o.link, &o.bytes, &o.whole, &o.suffix, &o.queue, &o.imposed)
}

// demand is what the fetch would have saved: C of the prefix, and what computing
// the prefix imposes on others.
func (o *open) demand() (cost.Demand, bool) {
	prefix := o.whole - o.suffix
	if o.fetch == 0 || o.link == "" || !(o.bytes > 0) || !(prefix > 0) {
		return cost.Demand{}, false
	}
	return cost.Demand{Bytes: o.bytes, Recompute: prefix, GPUExternality: o.imposedByPrefix()}, true
}

// imposedByPrefix is the share of the recompute's externality that a fetch would
// have spared: it grows with C(Qg + C/2) (cost.ComputeExternality), and the suffix
// is computed either way. A missing externality counts as none.
func (o *open) imposedByPrefix() float64 {
	if !(o.imposed > 0) {
		return 0
	}
	queue := max(0, o.queue)
	if queue != queue {
		queue = 0
	}
	delay := func(c float64) float64 { return c * (queue + c/2) }
	return o.imposed * (1 - delay(o.suffix)/delay(o.whole))
}
