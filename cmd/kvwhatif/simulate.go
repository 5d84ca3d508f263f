package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
)

func (c *cli) simulate() *cobra.Command {
	var o app.SimulateOptions
	var base string
	cmd := &cobra.Command{
		Use: "simulate", Short: "Runs a simulated fleet with a coordinator in it", Args: noArgs,
		Long: `Drives a simulated fleet with the arrivals of a real trace, decides each request
by --policy, and prints what came of it. With --otlp it sends the spans of a real
coordinator to a collector; with --legs it also takes replay legs, as the executor
of "kvwhatif replay", and then goes on after the last request until it is stopped.
The same seed gives the same run.`,
		Example: `  kvwhatif simulate --scenario busy --policy never
  kvwhatif simulate --pace 1 --otlp 127.0.0.1:4317 --legs 127.0.0.1:9471`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runSimulate(cmd, o, base) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Scenario, "scenario", app.ScenarioCalm, "calm, or busy: the same requests so close that their link fills")
	f.StringVar(&o.Policy, "policy", app.PolicyFetchAll, "how the coordinator decides: fetch-all, never, seed-rule or fitted")
	f.IntVar(&o.Requests, "requests", 0, "requests of the trace; 0: all 12,031")
	f.Uint64Var(&o.Seed, "seed", 1, "of arrivals and noise")
	f.Float64Var(&o.Explore, "explore", 0.05, "share of decisions that take another candidate, 0 to 1")
	f.StringVar(&o.OTLP, "otlp", "", "host:port of a collector's OTLP/gRPC that spans are sent to")
	f.StringVar(&o.Legs, "legs", "", "host:port where replay legs are taken")
	f.Float64Var(&o.Pace, "pace", 0, "simulated seconds a second; 0: as fast as this machine goes")
	f.StringVar(&o.Coefficients, "coefficients", "", "URL of a coefficient server; without it a built-in prior predicts")
	f.StringVar(&o.PublicKey, "public-key", "", "PEM file of the key that signs the coefficients")
	f.StringVar(&o.RunID, "run-id", "", "the same again gives the same spans, which merge [a new one]")
	f.StringVar(&base, "base", "", "instant of simulated second 0, RFC 3339 [so that the run ends now]")
	senderFlags(cmd)
	complete(cmd, "scenario", app.Scenarios()...)
	complete(cmd, "policy", app.Policies()...)
	return cmd
}

func (c *cli) runSimulate(cmd *cobra.Command, o app.SimulateOptions, base string) (err error) {
	if base != "" {
		if o.Base, err = time.Parse(time.RFC3339, base); err != nil {
			return usageError{fmt.Errorf("--base is %q: write it as 2026-11-30T09:00:00Z", base)}
		}
	}
	if err := checkSimulate(o); err != nil {
		return usageError{err}
	}
	s, log, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	o.Sender = s.Sender
	line := newProgress(os.Stderr)
	o.Progress = line.tell
	result, err := app.Simulate(cmd.Context(), o, log)
	line.end()
	if err != nil {
		return err
	}
	return c.print(cmd.OutOrStdout(), result, func(w io.Writer) error { return simulationText(w, result) })
}

func checkSimulate(o app.SimulateOptions) error {
	switch {
	case !slices.Contains(app.Scenarios(), o.Scenario):
		return fmt.Errorf("--scenario is %q: give one of %v", o.Scenario, app.Scenarios())
	case !slices.Contains(app.Policies(), o.Policy):
		return fmt.Errorf("--policy is %q: give one of %v", o.Policy, app.Policies())
	case o.Requests < 0:
		return fmt.Errorf("--requests is %d: give 0 for all, or a number of requests", o.Requests)
	case !(o.Explore >= 0 && o.Explore < 1):
		return fmt.Errorf("--explore is %v: give a share from 0 up to, not including, 1", o.Explore)
	case !(o.Pace >= 0):
		return fmt.Errorf("--pace is %v: give simulated seconds a second, or 0 for as fast as possible", o.Pace)
	case o.Coefficients != "" && o.PublicKey == "":
		return fmt.Errorf("--coefficients needs --public-key FILE: a coordinator obeys only what is signed")
	}
	return nil
}

func simulationText(w io.Writer, s *app.Simulation) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendRows([]table.Row{
		{"scenario", s.Scenario}, {"policy", s.Policy}, {"seed", s.Seed}, {"run", s.RunID}, {"requests", s.Requests},
	})
	for _, path := range slices.Sorted(maps.Keys(s.Paths)) {
		t.AppendRow(table.Row{"  " + path, s.Paths[path]})
	}
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"mean TTFT", millis(s.Mean)}, {"p50", millis(s.P50)}, {"p95", millis(s.P95)}, {"p99", millis(s.P99)},
	})
	t.AppendSeparator()
	t.AppendRows([]table.Row{
		{"link load if every prefix were fetched", fmt.Sprintf("%.2f", s.Eligible)},
		{"link load as decided", fmt.Sprintf("%.2f", s.Offered)},
		{"GPU load", fmt.Sprintf("%.2f", s.GPU)}, {"recompute time over lone wire time", fmt.Sprintf("%.2f", s.Kappa)},
	})
	_, err := fmt.Fprintln(w, t.Render())
	return err
}
