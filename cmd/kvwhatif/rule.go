package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// ruleFlags is one question to the rule, as people write it.
type ruleFlags struct {
	bytes                                    units.Bytes
	link                                     units.Rate
	sharers                                  []float64
	recompute, queue, wait, restore, startup units.Duration
}

func (c *cli) rule() *cobra.Command {
	f := ruleFlags{sharers: []float64{1}}
	cmd := &cobra.Command{
		Use:   "rule",
		Short: "Says which path wins for one prefix, and why",
		Long: `Says whether fetching a prefix or recomputing it is faster, for each number of
equal transfers that share the link: fetching loses when
max(Qg, Qn + S/Beff) + D > Qg + C.`,
		Example: "  kvwhatif rule --bytes 1GiB --link 400Gbit/s --sharers 1,16 --recompute 200ms",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usageError{err}
			}
			rows := cost.Rule(f.input())
			return c.print(cmd.OutOrStdout(), ruleJSON(rows), func(w io.Writer) error { return ruleText(w, rows) })
		},
	}
	flags := cmd.Flags()
	flags.Var(&f.bytes, "bytes", "size of the prefix, such as 1GiB (S)")
	flags.Var(&f.link, "link", "capacity of the link, such as 400Gbit/s (B)")
	flags.Float64SliceVar(&f.sharers, "sharers", f.sharers, "transfers that share the link, this one included")
	flags.Var(&f.recompute, "recompute", "time to compute the prefix again, such as 200ms (C)")
	flags.Var(&f.queue, "gpu-queue", "wait for the GPU on either path (Qg)")
	flags.Var(&f.wait, "transfer-queue", "wait before the first byte (Qn)")
	flags.Var(&f.restore, "restore", "time to make the bytes usable (D)")
	for _, required := range []string{"bytes", "link", "recompute"} {
		_ = cmd.MarkFlagRequired(required)
	}
	return cmd
}

func (f *ruleFlags) check() error {
	if f.bytes <= 0 || f.link <= 0 || f.recompute <= 0 {
		return fmt.Errorf("--bytes, --link and --recompute must be above 0")
	}
	if f.queue < 0 || f.wait < 0 || f.restore < 0 {
		return fmt.Errorf("--gpu-queue, --transfer-queue and --restore must not be negative")
	}
	for _, s := range f.sharers {
		if !(s >= 1) {
			return fmt.Errorf("--sharers has %v: this transfer counts, so the least is 1", s)
		}
	}
	return nil
}

func (f *ruleFlags) input() cost.RuleInput {
	seconds := func(d units.Duration) float64 { return time.Duration(d).Seconds() }
	return cost.RuleInput{
		Bytes: float64(f.bytes), Law: cost.Transfer{Link: cost.Link{B: float64(f.link)}},
		GPUQueue: seconds(f.queue), TransferQueue: seconds(f.wait), Restore: seconds(f.restore),
		Recompute: seconds(f.recompute), Sharers: f.sharers,
	}
}

func ruleText(w io.Writer, rows []cost.RuleRow) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"sharers", "on the wire", "fetch", "recompute", "delays others by", "wins", "why"})
	for _, r := range rows {
		t.AppendRow(table.Row{strconv.FormatFloat(r.Sharers, 'g', -1, 64),
			millis(r.Wire), millis(r.Fetch), millis(r.Recompute), millis(r.Imposed), r.Winner, r.Why})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// millis writes seconds as milliseconds for people.
func millis(s float64) string {
	if s*1e3 >= 100 {
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f ms", s*1e3)
}

type ruleRow struct {
	Sharers   float64 `json:"sharers"`
	Wire      float64 `json:"wire_seconds"`
	Fetch     float64 `json:"fetch_seconds"`
	Recompute float64 `json:"recompute_seconds"`
	Imposed   float64 `json:"imposed_seconds"`
	Winner    string  `json:"winner"`
	Why       string  `json:"why"`
}

func ruleJSON(rows []cost.RuleRow) []ruleRow {
	out := make([]ruleRow, len(rows))
	for i, r := range rows {
		out[i] = ruleRow(r)
	}
	return out
}
