package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

func (c *cli) replay() *cobra.Command {
	cmd := c.stage("replay", "Runs a sample of the paths not taken",
		`Draws from the decisions in Kafka, has the executor run the path that each did
not take, and some of the paths taken as controls, and sends the results to a
collector. What it may cost is a share of production's own GPU-seconds and bytes.
Without --kafka it looks in --dir for a running "kvwhatif up".

One kill switch stops every leg within a second, those under way too, and holds
over a restart: "kvwhatif replay stop" (and "resume"), the file --kill-file, SIGUSR1
(again to go on), or PUT /v1/replay/kill on --listen (DELETE to go on). A circuit
breaker holds replays where production's p99 TTFT is worse beside them. See what
would run, and cost, with "kvwhatif replay plan".`,
		app.Replay, "kafka", "dir", "listen")
	cmd.Flags().String("executor", "", "what runs the legs: http://... of kvwhatif simulate --legs, or [WORKER=]vllm+http://..., sglang+http://..., llamacpp+http://..., openai+http://..., with commas between servers")
	cmd.Flags().String("engine-tier", "", "tier of the cache beside the engines: cpu, disk, object or peer [no fetches]")
	cmd.Flags().Bool("engine-may-drop", false, "an engine's own prefix cache may be dropped before a fetch, production's blocks in it too")
	cmd.Flags().String("otlp", "", "host:port of the collector that results are sent to [127.0.0.1:4317]")
	senderFlags(cmd)
	cmd.Flags().Int("parallel", 0, "legs at once [4]")
	cmd.Flags().String("deadline", "", "of a leg, after its decision; 0s for none [10m]")
	cmd.Flags().String("kill-file", "", "file whose presence stops all replays [kvwhatif.kill in --dir]")
	cmd.Flags().String("idle-queue", "", "legs start on workers whose GPU queue is at most this; 0s: on any [50ms]")
	cmd.Flags().Float64("breaker", 0, "of production's p99 TTFT away from replays that it may reach beside them; 0: no circuit breaker [1.5]")
	cmd.Flags().String("adapt", "", "how often the sampling rates are fitted to the budget, by a new plan; 0s: never [0s]")
	planFlags(cmd)
	cmd.AddCommand(c.replayPlan(), c.replayStop(), c.replayResume(), c.replayStatus())
	return cmd
}

// controlFlags say which replayer is meant.
func controlFlags(cmd *cobra.Command, url *string) {
	backendFlags(cmd, "dir")
	cmd.Flags().StringVar(url, "url", "", "of the replayer's --listen; empty: the replayer on --dir")
	cmd.Flags().String("kill-file", "", "of the replayer [kvwhatif.kill in --dir]")
}

func (c *cli) control(use, short, example string, do func(cmd *cobra.Command, s *app.Settings, at app.ReplayControl) (*app.ReplayStatus, error)) *cobra.Command {
	var at app.ReplayControl
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, _, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			status, err := do(cmd, s, at)
			if err != nil {
				return err
			}
			return c.show(cmd, status)
		},
	}
	controlFlags(cmd, &at.URL)
	return cmd
}

func (c *cli) replayStop() *cobra.Command {
	var why string
	cmd := c.control("stop", "Stops all replays within a second, those under way too", "  kvwhatif replay stop --why \"incident 12\"",
		func(cmd *cobra.Command, s *app.Settings, at app.ReplayControl) (*app.ReplayStatus, error) {
			return app.StopReplays(cmd.Context(), s, at, why)
		})
	cmd.Flags().StringVar(&why, "why", "kvwhatif replay stop", "reason, shown in the status")
	return cmd
}

func (c *cli) replayResume() *cobra.Command {
	return c.control("resume", "Lets stopped replays go on", "  kvwhatif replay resume",
		func(cmd *cobra.Command, s *app.Settings, at app.ReplayControl) (*app.ReplayStatus, error) {
			return app.ResumeReplays(cmd.Context(), s, at)
		})
}

func (c *cli) replayStatus() *cobra.Command {
	return c.control("status", "Says what replays did, what waits, and what holds them", "  kvwhatif replay status --output json",
		func(cmd *cobra.Command, s *app.Settings, at app.ReplayControl) (*app.ReplayStatus, error) {
			return app.ReplayStatusOf(cmd.Context(), s, at)
		})
}

// planFlags are what decides which legs are drawn.
func planFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64("share", 0, "of production's cost that legs may cost, above 0 to 1 [0.01]")
	f.Float64("rate", 0, "of decisions of which a path not taken is run, above 0 to 1 [0.02]")
	f.Float64("control", 0, "of decisions whose own path is run again, above 0 to 1 [0.02]")
}

func (c *cli) replayPlan() *cobra.Command {
	var since units.Duration
	cmd := &cobra.Command{
		Use: "plan", Short: "Says what replay would run and what it would cost, and runs nothing", Args: noArgs,
		Long: `Reads decisions from Kafka without joining a group, and says by stratum what the
settings would have replayed of them, and what that is predicted to cost.`,
		Example: "  kvwhatif replay plan --since 1h --rate 0.05",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 {
				return usageError{fmt.Errorf("--since is %v: give a length of time, or 0s for all that Kafka has", since)}
			}
			s, _, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			preview, err := app.PreviewReplay(cmd.Context(), s, time.Duration(since))
			if err != nil {
				return err
			}
			return c.show(cmd, preview)
		},
	}
	backendFlags(cmd, "kafka", "dir")
	planFlags(cmd)
	cmd.Flags().Var(&since, "since", "only decisions of this time up to now; 0s: all that Kafka has")
	return cmd
}
