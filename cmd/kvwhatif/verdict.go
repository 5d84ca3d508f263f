package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

// spanFlags are a range of time, as people write it.
type spanFlags struct {
	since       units.Duration
	from, until string
}

func (f *spanFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(&f.since, "since", "how far back, such as 1h or 7d")
	cmd.Flags().StringVar(&f.from, "from", "", "first instant, RFC 3339, such as 2026-11-30T09:00:00Z; instead of --since")
	cmd.Flags().StringVar(&f.until, "until", "", "end of the range, RFC 3339; now without it")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
}

// span is the range that was asked for.
func (f *spanFlags) span() (out app.Span, err error) {
	out.Since = time.Duration(f.since)
	if f.from == "" && out.Since <= 0 {
		return out, usageError{fmt.Errorf("--since is %v: give a length of time above 0, such as 1h", f.since)}
	}
	for _, flag := range []struct {
		name, value string
		to          *time.Time
	}{{"from", f.from, &out.From}, {"until", f.until, &out.Until}} {
		if flag.value == "" {
			continue
		}
		if *flag.to, err = time.Parse(time.RFC3339, flag.value); err != nil {
			return out, usageError{fmt.Errorf("--%s is %q: write it as 2026-11-30T09:00:00Z", flag.name, flag.value)}
		}
	}
	return out, nil
}

// verdictFlags are what verdict is asked.
type verdictFlags struct {
	span          spanFlags
	settle, every units.Duration
	failOn        []string
	options       app.VerdictOptions
}

func (c *cli) verdict() *cobra.Command {
	f := &verdictFlags{span: spanFlags{since: units.Duration(time.Hour)}}
	cmd := &cobra.Command{
		Use: "verdict", Short: "Says whether reuse helps, hurts or is unknown, from replays", Args: noArgs,
		Long: `Estimates, from the replays of a range of requests, what the paths that were not
taken would have cost, says whether each choice helped, and writes that into the
tables of ClickHouse for Grafana and "kvwhatif report". It judges all requests,
and then each policy and link; with one of --policy, --model, --tier, --link or
--service, that scope alone.

Which replays were drawn is found again with the replayer's salt and rates
(replay.salt, replay.rate, replay.control; in --dir of a running "kvwhatif up",
the salt is known). The exit code is 0 whatever the verdict, or 4 where a scope
has a verdict that --fail-on lists. With --every it runs until it is stopped.`,
		Example: "  kvwhatif verdict --since 6h\n  kvwhatif verdict --since 1d --link rack-7 --fail-on hurting",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.runVerdict(cmd, f) },
	}
	backendFlags(cmd, "clickhouse", "dir", "listen")
	f.span.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.Var(&f.settle, "settle", "leave out requests younger than this, whose replays may still run [replay.deadline and a minute]")
	flags.StringVar(&o.Policy, "policy", "", "only requests that this policy decided")
	flags.StringVar(&o.Model, "model", "", "only requests of this model")
	flags.StringVar(&o.Tier, "tier", "", "only prefixes in this tier: gpu, cpu, disk, object or peer")
	flags.StringVar(&o.Link, "link", "", "only requests that used this link or could have")
	flags.StringVar(&o.Service, "service", "", "only decisions of this service.name; not kept in the tables")
	flags.BoolVar(&o.DryRun, "dry-run", false, "write nothing into the tables")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "exit with 4 on these verdicts: "+strings.Join(app.VerdictStates(), ", "))
	flags.Var(&f.every, "every", "judge again so often, until stopped")
	flags.Float64("rate", 0, "of decisions that were sampled [0.02]")
	flags.Float64("control", 0, "of decisions whose own path was run again [0.02]")
	flags.String("plans", "", "history of sampling plans: a file, or http://HOST:PORT/v1/replay/plans of the replayer [legs/plans.json in --dir, where it is]")
	complete(cmd, "policy", app.Policies()...)
	complete(cmd, "tier", "gpu", "cpu", "disk", "object", "peer")
	complete(cmd, "fail-on", app.VerdictStates()...)
	return cmd
}

func (c *cli) runVerdict(cmd *cobra.Command, f *verdictFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	if f.options.Span, err = f.span.span(); err != nil {
		return err
	}
	f.options.Settle = time.Duration(f.settle)
	if f.settle == 0 && cmd.Flags().Changed("settle") {
		f.options.Settle = time.Nanosecond // none at all; zero is the default
	}
	s, log, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	if f.every > 0 {
		return app.Repeat(cmd.Context(), s, "verdict", time.Duration(f.every), log, func(ctx context.Context) error {
			return logVerdict(ctx, s, f.options, log)
		})
	}
	answer, err := app.Verdict(cmd.Context(), s, f.options)
	if err != nil {
		return err
	}
	if err := c.show(cmd, answer); err != nil {
		return err
	}
	if found := answer.Failing(f.failOn); found != "" {
		return failOnError{found}
	}
	return nil
}

func logVerdict(ctx context.Context, s *app.Settings, o app.VerdictOptions, log *slog.Logger) error {
	answer, err := app.Verdict(ctx, s, o)
	if err == nil {
		answer.Log(log)
	}
	return err
}

func (f *verdictFlags) check() error {
	for _, state := range f.failOn {
		if !slices.Contains(app.VerdictStates(), state) {
			return usageError{fmt.Errorf("--fail-on has %q: give some of %s", state, strings.Join(app.VerdictStates(), ", "))}
		}
	}
	switch {
	case f.every < 0 || f.settle < 0:
		return usageError{fmt.Errorf("--every and --settle must not be negative")}
	case f.every > 0 && len(f.failOn) > 0:
		return usageError{fmt.Errorf("--fail-on needs an end, and --every has none: give one of the two")}
	case f.every > 0 && (f.span.from != "" || f.span.until != ""):
		return usageError{fmt.Errorf("--every judges what is new: give it --since, not --from and --until")}
	}
	return nil
}

// failOnError is a verdict that --fail-on lists.
type failOnError struct{ verdict string }

// Error says which.
func (e failOnError) Error() string { return "verdict is " + e.verdict }

// complete lists the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
