package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
	"github.com/kvwhatif/kvwhatif/schema"
)

// probeToken is the variable with the token of both sides.
const probeToken = "KVWHATIF_PROBE_TOKEN"

func (c *cli) probe() *cobra.Command {
	cmd := &cobra.Command{
		Use: "probe", Short: "Measures a link between two hosts, without an engine", Args: noArgs,
		Long: `Moves bytes between two hosts over TCP, several sizes by several flows at once,
and fits the law of transfers to what it sees. "probe serve" runs where prefixes
are kept, "probe run" where they are fetched to.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(c.probeServe(), c.probeRun())
	return cmd
}

func (c *cli) probeServe() *cobra.Command {
	var address string
	var most units.Bytes
	var flows int
	cmd := &cobra.Command{
		Use: "serve", Short: "Gives bytes to probes, until it is stopped", Args: noArgs,
		Long: `Gives bytes to whoever knows the token, which is the variable ` + probeToken + `;
only on this machine's own address may there be none.`,
		Example: "  " + probeToken + "=... kvwhatif probe serve --address 10.0.0.1:9480",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most <= 0 || flows < 1 {
				return usageError{errors.New("--max-bytes and --max-flows must be above 0")}
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			cfg := app.ProbeServer{Token: os.Getenv(probeToken), MaxBytes: int64(most), MaxFlows: flows, Logger: log}
			return app.ServeProbe(cmd.Context(), address, cfg, func(at string) {
				fmt.Fprintf(cmd.OutOrStdout(), "probes are answered at %s, with %d bytes at most\n", at, int64(most))
			})
		},
	}
	most = 64 << 30
	f := cmd.Flags()
	f.StringVar(&address, "address", "127.0.0.1:9480", "host:port to listen at")
	f.Var(&most, "max-bytes", "given in all, then it refuses")
	f.IntVar(&flows, "max-flows", 64, "connections at once")
	return cmd
}

// probeFlags are a run of the probe as people write it.
type probeFlags struct {
	sizes   []string
	budget  units.Bytes
	rate    units.Rate
	timeout units.Duration
	tier    string
	o       app.ProbeOptions
}

func (c *cli) probeRun() *cobra.Command {
	p := probeFlags{budget: 1 << 30, timeout: units.Duration(time.Minute)}
	cmd := &cobra.Command{
		Use: "run ADDRESS", Short: "Moves bytes from a probe serve to here, and fits the link's law", Args: cobra.ExactArgs(1),
		Long: `Moves each size by each number of flows at once, --rounds times, in a random
order, and prints the law of transfers that fits, with 95 % intervals. It pauses
after each round so that it takes no more than --max-share of the link, and ends
at once when the file --kill-file is there. "calibrate --probe FILE" fits to what
--save wrote.`,
		Example: "  " + probeToken + "=... kvwhatif probe run 10.0.0.1:9480 --tier cpu --link spine --rate 100Gbit/s --save probe.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := p.options(args[0])
			if err != nil {
				return usageError{err}
			}
			bar := newProgress(os.Stderr)
			o.Progress = func(done, all int) { bar.tell("rounds", done, all) }
			result, err := app.RunProbe(cmd.Context(), o)
			bar.end()
			if result == nil {
				return err
			}
			return errors.Join(c.show(cmd, result), err)
		},
	}
	p.register(cmd)
	return cmd
}

func (p *probeFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&p.sizes, "sizes", []string{"256KiB", "2MiB", "16MiB"}, "bytes of a transfer")
	f.IntSliceVar(&p.o.Flows, "flows", []int{1, 2, 4}, "transfers at once")
	f.IntVar(&p.o.Rounds, "rounds", 8, "of each size and number of flows")
	f.Uint64Var(&p.o.Seed, "seed", 1, "of the order of rounds")
	f.StringVar(&p.tier, "tier", "", "that fetches over the link come from: cpu, disk, object or peer")
	f.StringVar(&p.o.Link, "link", "", "its name, as candidates name it")
	f.StringVar(&p.o.Pair, "pair", "", "SOURCE>WORKER of the two hosts, as candidates name them")
	f.Var(&p.budget, "max-bytes", "that the probe may move; nothing is moved if it would be more")
	f.Float64Var(&p.o.MaxShare, "max-share", 0.1, "of the link's rate that the probe may take on average, above 0 to 1")
	f.Var(&p.rate, "rate", "of the link, such as 100Gbit/s; without it, the best that the probe sees")
	f.Var(&p.timeout, "timeout", "of a round")
	f.StringVar(&p.o.Kill, "kill-file", "kvwhatif.kill", "file whose presence ends the probe")
	f.StringVar(&p.o.Save, "save", "", "file that the observations are written to")
	for _, required := range []string{"tier", "link"} {
		_ = cmd.MarkFlagRequired(required)
	}
	complete(cmd, "tier", "cpu", "disk", "object", "peer")
}

func (p *probeFlags) options(address string) (app.ProbeOptions, error) {
	o := p.o
	o.Address, o.Token, o.MaxBytes, o.Rate, o.Timeout = address, os.Getenv(probeToken), int64(p.budget), float64(p.rate), time.Duration(p.timeout)
	var ok bool
	if o.Tier, ok = schema.ParseTier(strings.ToLower(p.tier)); !ok {
		return o, fmt.Errorf("--tier is %q: give cpu, disk, object or peer", p.tier)
	}
	o.Sizes = nil
	for _, text := range p.sizes {
		n, err := units.ParseBytes(text)
		if err != nil {
			return o, fmt.Errorf("--sizes: %w", err)
		}
		o.Sizes = append(o.Sizes, int64(n))
	}
	return o, o.Validate()
}
