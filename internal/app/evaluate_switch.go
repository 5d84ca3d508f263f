package app

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/replay/evaluate"
)

// SwitchbackOptions say which policies took turns, and how.
type SwitchbackOptions struct {
	Span
	A, B, Link    string
	Block, BurnIn time.Duration
	Origin        time.Time // where a block begins; zero: whole multiples of Block since the Unix epoch
	Design        string    // complete or pairs
	Seed          uint64
}

// SwitchbackAnswer is the effect of a policy against another, by blocks of time.
type SwitchbackAnswer struct {
	A         string        `json:"a"`
	B         string        `json:"b"`
	From      time.Time     `json:"from"`
	Until     time.Time     `json:"until"`
	Block     float64       `json:"block_seconds"`
	BurnIn    float64       `json:"burn_in_seconds"`
	Design    string        `json:"design"`
	State     string        `json:"state"` // of B against A
	Known     bool          `json:"known"`
	Why       string        `json:"why,omitempty"`
	MeanA     report.Number `json:"mean_a_seconds"`
	MeanB     report.Number `json:"mean_b_seconds"`
	Effect    Bounded       `json:"effect"`            // B − A; interval by inverting the randomisation test
	Student   Bounded       `json:"effect_by_student"` // the same, by Student's t over blocks
	P         report.Number `json:"p"`
	Exact     bool          `json:"exact"`
	Draws     int           `json:"assignments"`
	N         int           `json:"requests"`
	BurntIn   int           `json:"burnt_in"`
	Other     int           `json:"other"`
	BlocksA   int           `json:"blocks_a"`
	BlocksB   int           `json:"blocks_b"`
	Mixed     int           `json:"blocks_mixed"`
	Short     int           `json:"blocks_short"`
	Unpaired  int           `json:"blocks_unpaired"`
	CarryOver report.Number `json:"carry_over_seconds"`
	CarryP    report.Number `json:"carry_over_p"`
}

const servedSQL = "SELECT toUnixTimestamp64Nano(start), policy, ifNull(toFloat64(ttft), nan) FROM requests FINAL " +
	"WHERE minute >= toStartOfMinute(fromUnixTimestamp64Nano({from:Int64}, 'UTC')) AND minute < fromUnixTimestamp64Nano({until:Int64}, 'UTC') " +
	"AND start >= fromUnixTimestamp64Nano({from:Int64}, 'UTC') AND start < fromUnixTimestamp64Nano({until:Int64}, 'UTC') AND kind = 'contract' " +
	"AND ({link:String} = '' OR link = {link:String} OR has(arrayMap(l -> splitByChar('+', l)[1], `candidate.links`), {link:String})) " +
	"SETTINGS do_not_merge_across_partitions_select_final = 1"

// Switchback analyses blocks of time under two policies that took turns.
func Switchback(ctx context.Context, s *Settings, o SwitchbackOptions) (*SwitchbackAnswer, error) {
	from, until, err := o.at(time.Now(), 0)
	if err != nil {
		return nil, err
	}
	conn, _, err := openTables(ctx, s)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	link := strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`).Replace(o.Link)
	rows, err := conn.Query(ch.Context(ctx, ch.WithParameters(ch.Parameters{
		"from": strconv.FormatInt(from.UnixNano(), 10), "until": strconv.FormatInt(until.UnixNano(), 10), "link": link,
	})), servedSQL)
	if err != nil {
		return nil, fmt.Errorf("read a switchback: %w", clickhouse.Explain(err))
	}
	defer rows.Close()
	var served []evaluate.Served
	for rows.Next() {
		var nanos int64
		var r evaluate.Served
		if err := rows.Scan(&nanos, &r.Policy, &r.Outcome); err != nil {
			return nil, fmt.Errorf("read a switchback: %w", clickhouse.Explain(err))
		}
		r.At = float64(nanos-from.UnixNano()) / 1e9
		served = append(served, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read a switchback: %w", clickhouse.Explain(err))
	}
	return o.analyse(served, from, until)
}

// analyse gives the answer; times of served are seconds since from.
func (o SwitchbackOptions) analyse(served []evaluate.Served, from, until time.Time) (*SwitchbackAnswer, error) {
	origin := o.Origin
	if origin.IsZero() {
		origin = time.Unix(0, 0)
	}
	design := evaluate.Design(o.Design)
	if o.Block <= 0 {
		return nil, fmt.Errorf("a block of %v: give --block, how long a policy stays, such as 5m", o.Block)
	}
	got, err := evaluate.Switch(served, evaluate.Switchback{
		A: o.A, B: o.B, Block: o.Block.Seconds(), BurnIn: o.BurnIn.Seconds(), Design: design, Seed: o.Seed,
		Origin: -float64(from.Sub(origin)%o.Block) / 1e9,
	})
	if err != nil {
		return nil, err
	}
	out := &SwitchbackAnswer{
		A: o.A, B: o.B, From: from.UTC(), Until: until.UTC(), Block: o.Block.Seconds(), BurnIn: o.BurnIn.Seconds(), Design: o.Design,
		Known: got.Known, Why: got.Why, MeanA: report.Num(got.A), MeanB: report.Num(got.B), Effect: boundedBy(got.Effect), Student: boundedBy(got.ByT),
		P: report.Num(got.P), Exact: got.Exact, Draws: got.Draws, N: got.N, BurntIn: got.BurntIn, Other: got.Other,
		BlocksA: got.BlocksA, BlocksB: got.BlocksB, Mixed: got.Mixed, Short: got.Short, Unpaired: got.UnpairedDropped,
		CarryOver: report.Num(got.CarryOver), CarryP: report.Num(got.CarryP), State: StateUnknown,
	}
	if !got.Known {
		nan := report.Num(math.NaN())
		out.MeanA, out.MeanB = nan, nan
		return out, nil
	}
	out.State = stateOfChange(got.Effect.Lo, got.Effect.Hi, got.A)
	return out, nil
}

// Failing says that the state is one of these, and why; "" where it is not.
func (a *SwitchbackAnswer) Failing(states []string) string {
	if slices.Contains(states, a.State) {
		return fmt.Sprintf("%s: %s against %s: %s", a.State, a.B, a.A, a.say())
	}
	return ""
}

func (a *SwitchbackAnswer) say() string {
	if !a.Known {
		return a.Why
	}
	return fmt.Sprintf("TTFT %s (%s to %s)", signed(a.Effect.Value), signed(a.Effect.Low), signed(a.Effect.High))
}

// Text is the answer for a terminal.
func (a *SwitchbackAnswer) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: policy %s against %s: %s\n", strings.ToUpper(a.State), a.B, a.A, a.say())
	if a.Known {
		how := fmt.Sprintf("of %d random assignments", a.Draws)
		if a.Exact {
			how = fmt.Sprintf("of all %d assignments", a.Draws)
		}
		fmt.Fprintf(&b, "  mean %s under %s, %s under %s\n", ms(a.MeanA), a.A, ms(a.MeanB), a.B)
		fmt.Fprintf(&b, "  p %.3g, %s of the design %s; interval by inverting that test\n", a.P.V, how, a.Design)
		fmt.Fprintf(&b, "  by Student's t over blocks: %s to %s\n", signed(a.Student.Low), signed(a.Student.High))
		carry := "not tested: too few switches each way"
		if a.CarryP.Known() {
			carry = fmt.Sprintf("p %.2g", a.CarryP.V)
		}
		fmt.Fprintf(&b, "  carry-over after the burn-in: %s\n", carry)
	}
	fmt.Fprintf(&b, "  %d requests in %d + %d blocks of %gs; left out: %d after switches, %d of other policies or without TTFT, blocks: %d mixed, %d of few requests, %d without a pair\n",
		a.N, a.BlocksA, a.BlocksB, a.Block, a.BurntIn, a.Other, a.Mixed, a.Short, a.Unpaired)
	fmt.Fprintf(&b, "Window: %s to %s\n", a.From.UTC().Format(time.RFC3339), a.Until.UTC().Format(time.RFC3339))
	b.WriteString("Note: blocks are taken to have been given to the policies at random, as the design says; what needs longer than a block to settle (caches, long queues) is not in the effect\n")
	return b.String()
}
