package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

// evaluateFlags are what evaluate is asked.
type evaluateFlags struct {
	span    spanFlags
	settle  units.Duration
	failOn  []string
	options app.EvaluateOptions
}

func (c *cli) evaluate() *cobra.Command {
	f := &evaluateFlags{span: spanFlags{since: units.Duration(time.Hour)}}
	cmd := &cobra.Command{
		Use: "evaluate", Short: "Says what a policy that is not deployed would do to TTFT", Args: noArgs,
		Long: `Values the policy in a file on logged requests, by three methods: replays and
logged propensities, which move one request at a time and leave queues and caches as
they were; and whole runs of a simulated fleet, made of the coefficients and of the
logged traffic, in which queues and caches follow the policy. All that can be had are
shown. Where the policy changes the load of a link or of the GPUs by more than
--limit, requests wait for each other otherwise than they did, and only the simulator
answers; its assumptions are printed. For two policies that did run, in turns, see
"kvwhatif evaluate switchback".

A policy file is YAML or JSON, such as {kind: threshold, margin_seconds: 0.05};
"kvwhatif evaluate schema" prints its JSON Schema. The exit code is 0 whatever the
answer, or 4 where it is one that --fail-on lists.`,
		Example: "  kvwhatif evaluate --policy never.yaml --since 6h\n  kvwhatif evaluate --policy price.yaml --link rack-7 --fail-on slower,unknown",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.runEvaluate(cmd, f) },
	}
	backendFlags(cmd, "clickhouse", "kafka", "dir")
	f.span.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.StringVar(&o.PolicyFile, "policy", "", "file of the policy, YAML or JSON")
	flags.Var(&f.settle, "settle", "leave out requests younger than this, whose replays may still run [replay.deadline and a minute]")
	flags.StringVar(&o.Policy, "logged-by", "", "only requests that this policy decided")
	flags.StringVar(&o.Model, "model", "", "only requests of this model")
	flags.StringVar(&o.Tier, "tier", "", "only prefixes in this tier: gpu, cpu, disk, object or peer")
	flags.StringVar(&o.Link, "link", "", "only requests that used this link or could have")
	flags.Float64Var(&o.Limit, "limit", app.DefaultFeedbackLimit, "change of a link's or the GPUs' load above which others notice, 0 to 1")
	flags.StringVar(&o.Coefficients, "coefficients", "", "file of the document that the simulated fleet's laws are taken from [the newest published, else the policy's]")
	flags.IntVar(&o.Runs, "runs", 5, "of the simulated fleet, under each policy")
	flags.Uint64Var(&o.Seed, "seed", 1, "of the simulator's noise")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "exit with 4 on these answers: "+strings.Join(app.EvaluatedStates(), ", "))
	flags.Float64("rate", 0, "of decisions that were sampled [0.02]")
	flags.Float64("control", 0, "of decisions whose own path was run again [0.02]")
	flags.String("plans", "", "history of sampling plans: a file, or http://HOST:PORT/v1/replay/plans of the replayer [legs/plans.json in --dir, where it is]")
	complete(cmd, "tier", "gpu", "cpu", "disk", "object", "peer")
	complete(cmd, "fail-on", app.EvaluatedStates()...)
	cmd.AddCommand(c.switchback(), policySchema())
	return cmd
}

func (c *cli) runEvaluate(cmd *cobra.Command, f *evaluateFlags) (err error) {
	o := &f.options
	switch {
	case o.PolicyFile == "":
		return usageError{fmt.Errorf("no policy: give --policy FILE, such as one that holds \"kind: never\"")}
	case f.settle < 0 || o.Limit < 0 || o.Limit > 1:
		return usageError{fmt.Errorf("--settle must not be negative, and --limit lies from 0 to 1")}
	case o.Runs < 3 || o.Runs > 100:
		return usageError{fmt.Errorf("--runs is %d: give 3 to 100", o.Runs)}
	}
	if err := checkStates(f.failOn); err != nil {
		return err
	}
	if o.Span, err = f.span.span(); err != nil {
		return err
	}
	o.Settle = time.Duration(f.settle)
	if f.settle == 0 && cmd.Flags().Changed("settle") {
		o.Settle = time.Nanosecond // none at all; zero is the default
	}
	s, _, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	answer, err := app.Evaluate(cmd.Context(), s, *o)
	if err != nil {
		return err
	}
	return c.judged(cmd, answer, f.failOn)
}

// answered is an answer that may fail a command.
type answered interface {
	texter
	Failing(states []string) string
}

// judged shows an answer, and fails where it is one of states.
func (c *cli) judged(cmd *cobra.Command, a answered, states []string) error {
	if err := c.show(cmd, a); err != nil {
		return err
	}
	if found := a.Failing(states); found != "" {
		return failOnError{found}
	}
	return nil
}

func checkStates(states []string) error {
	for _, s := range states {
		if !slices.Contains(app.EvaluatedStates(), s) {
			return usageError{fmt.Errorf("--fail-on has %q: give some of %s", s, strings.Join(app.EvaluatedStates(), ", "))}
		}
	}
	return nil
}

// policySchema prints the JSON Schema of a policy file.
func policySchema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Prints the JSON Schema of a policy file", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), app.PolicySchema())
			return err
		},
	}
}

// switchbackFlags are what switchback is asked.
type switchbackFlags struct {
	span          spanFlags
	block, burnIn units.Duration
	origin        string
	failOn        []string
	options       app.SwitchbackOptions
}

func (c *cli) switchback() *cobra.Command {
	f := &switchbackFlags{span: spanFlags{since: units.Duration(24 * time.Hour)}}
	cmd := &cobra.Command{
		Use: "switchback", Short: "Compares two policies that took turns in blocks of time", Args: noArgs,
		Long: `Compares policy --b with policy --a over blocks of time in which one or the other
decided everything, by the policy that each request's span names. It leaves out
--burn-in after each switch, tests whether the policy before still shows after that,
and gives the interval that inverts the randomisation test: exact up to 20 blocks,
else by random assignments. Give blocks to policies at random, and make them long
against the time in which queues settle: what takes longer than a block is not in the
effect. The exit code is 0, or 4 where the answer is one that --fail-on lists.`,
		Example: "  kvwhatif evaluate switchback --block 5m --burn-in 30s --a fetch-all --b fitted --since 1d",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.runSwitchback(cmd, f) },
	}
	backendFlags(cmd, "clickhouse", "dir")
	f.span.add(cmd)
	flags, o := cmd.Flags(), &f.options
	flags.Var(&f.block, "block", "how long a policy stays, such as 5m")
	flags.Var(&f.burnIn, "burn-in", "left out after each switch, such as 30s")
	flags.StringVar(&f.origin, "origin", "", "an instant at which a block began, RFC 3339 [whole multiples of --block since 1970]")
	flags.StringVar(&o.A, "a", "", "policy that is compared against")
	flags.StringVar(&o.B, "b", "", "policy that is compared")
	flags.StringVar(&o.Link, "link", "", "only requests that used this link or could have")
	flags.StringVar(&o.Design, "design", "complete", "how blocks were given: complete, any arrangement was as likely; pairs, each two had one of each")
	flags.Uint64Var(&o.Seed, "seed", 1, "of random assignments")
	flags.StringSliceVar(&f.failOn, "fail-on", nil, "exit with 4 on these answers: "+strings.Join(app.EvaluatedStates(), ", "))
	complete(cmd, "design", "complete", "pairs")
	complete(cmd, "fail-on", app.EvaluatedStates()...)
	return cmd
}

func (c *cli) runSwitchback(cmd *cobra.Command, f *switchbackFlags) (err error) {
	o := &f.options
	o.Block, o.BurnIn = time.Duration(f.block), time.Duration(f.burnIn)
	switch {
	case o.A == "" || o.B == "" || o.A == o.B:
		return usageError{fmt.Errorf("give two different policies by --a and --b")}
	case o.Block <= 0:
		return usageError{fmt.Errorf("give --block, how long a policy stays, such as 5m")}
	case o.BurnIn < 0 || o.BurnIn >= o.Block:
		return usageError{fmt.Errorf("--burn-in is %v: give 0s or more, and less than --block", o.BurnIn)}
	case o.Design != "complete" && o.Design != "pairs":
		return usageError{fmt.Errorf("--design is %q: give complete or pairs", o.Design)}
	}
	if err := checkStates(f.failOn); err != nil {
		return err
	}
	if f.origin != "" {
		if o.Origin, err = time.Parse(time.RFC3339, f.origin); err != nil {
			return usageError{fmt.Errorf("--origin is %q: write it as 2026-11-30T09:00:00Z", f.origin)}
		}
	}
	if o.Span, err = f.span.span(); err != nil {
		return err
	}
	s, _, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	answer, err := app.Switchback(cmd.Context(), s, *o)
	if err != nil {
		return err
	}
	return c.judged(cmd, answer, f.failOn)
}
