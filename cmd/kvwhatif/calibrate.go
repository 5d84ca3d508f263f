package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

func (c *cli) calibrate() *cobra.Command {
	var o app.CalibrateOptions
	var every units.Duration
	cmd := &cobra.Command{
		Use: "calibrate", Short: "Refits the cost model, and publishes it only if it is better", Args: noArgs,
		Long: `Fits the cost model to the first part of a window of requests, holds it against
the coefficients in force on the later part, and publishes it, signed, only if it
is better on a slice that matters and worse on none. Exit code 3 says that
nothing was published, which is the usual outcome and no failure; with --dry-run,
that nothing would have been. With --every it runs until it is stopped.`,
		Example: "  kvwhatif calibrate --dry-run\n  kvwhatif calibrate --window 12h --every 1h",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 0 {
				return usageError{fmt.Errorf("--every is %v: give a length of time, such as 1h", every)}
			}
			return c.runCalibrate(cmd, o, time.Duration(every))
		},
	}
	backendFlags(cmd, "clickhouse", "dir", "listen")
	f := cmd.Flags()
	f.BoolVar(&o.DryRun, "dry-run", false, "fit and judge, but publish nothing")
	f.Var(&every, "every", "run again so often, until stopped")
	f.StringSliceVar(&o.Policies, "policies", nil, "fit to requests that these policies decided; none: everybody's")
	f.StringSliceVar(&o.Services, "services", nil, "fit to decisions of these service.name; none: everybody's")
	f.StringSliceVar(&o.Probes, "probe", nil, "file of probe run --save, whose transfers of the fitted part of the window are fitted too")
	f.String("window", "", "of requests, up to now [24h]")
	f.Float64("hold-out", 0, "last share of the window, which the fit does not see [0.3]")
	f.Int("min-n", 0, "observations that a law needs [50]")
	f.String("key", "", "PEM file of the Ed25519 key, made if missing [calibrate.pem in --dir]")
	complete(cmd, "policies", app.Policies()...)
	return cmd
}

func (c *cli) runCalibrate(cmd *cobra.Command, o app.CalibrateOptions, every time.Duration) error {
	s, log, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	if every == 0 {
		result, err := app.Calibrate(cmd.Context(), s, o)
		if err != nil {
			return err
		}
		if err := c.show(cmd, result); err != nil {
			return err
		}
		return result.Err()
	}
	metrics := app.NewCalibrateMetrics()
	return app.Repeat(cmd.Context(), s, "calibrate", every, log, func(ctx context.Context) error {
		result, err := app.Calibrate(ctx, s, o)
		if err == nil {
			metrics.Note(result)
			log.Info("calibrate", "published", result.Published, "revision", result.Revision, "reason", result.Reason,
				"requests", result.Requests, "held_out", result.HeldOut)
		}
		return err
	}, metrics)
}
