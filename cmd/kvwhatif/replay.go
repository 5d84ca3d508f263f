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

Three kill switches stop every leg at once: the file --kill-file, SIGUSR1 (again
to go on), and PUT /v1/replay/kill on --listen (DELETE to go on). See what would
run, and cost, with "kvwhatif replay plan".`,
		app.Replay, "kafka", "dir", "listen")
	cmd.Flags().String("executor", "", "URL of what runs the legs, such as that of kvwhatif simulate --legs")
	cmd.Flags().String("otlp", "", "host:port of the collector that results are sent to [127.0.0.1:4317]")
	senderFlags(cmd)
	cmd.Flags().Int("parallel", 0, "legs at once [4]")
	cmd.Flags().String("deadline", "", "of a leg, after its decision; 0s for none [10m]")
	cmd.Flags().String("kill-file", "", "file whose presence stops all replays [kvwhatif.kill in --dir]")
	planFlags(cmd)
	cmd.AddCommand(c.replayPlan())
	return cmd
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
