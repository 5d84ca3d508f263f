package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
)

func (c *cli) demo() *cobra.Command {
	var o app.DemoOptions
	var engine string
	cmd := &cobra.Command{
		Use: "demo", Short: "Runs the whole loop once on a real trace, to a verdict and a report", Args: noArgs,
		Long: `Runs everything on this machine: an hour of real requests drives a simulated
fleet on a calm link and on a busy one; its spans go through OTLP, Kafka and
ClickHouse; a sample of the paths not taken is replayed; the cost model is
fitted and served; and policies are compared on traffic that the fit did not
see. It prints a verdict and writes a report. It needs an embedded ClickHouse
(make engine), or --clickhouse and --kafka of your own.

With --engine llama.cpp nothing is simulated: some four minutes of conversations
run on llama.cpp servers (make llama) behind a fast link and a slow one, replays
run on the same servers, and the numbers are those of this machine.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.runDemo(cmd, engine, o) },
	}
	backendFlags(cmd, "kafka", "clickhouse")
	f := cmd.Flags()
	f.String("dir", "kvwhatif-demo", "directory of the run; the same again adds nothing twice")
	f.StringVar(&engine, "engine", "simulator", "what serves the requests: simulator, or llama.cpp")
	f.IntVar(&o.Requests, "requests", 0, "requests of the trace; 0: all 12,031, or 180 on llama.cpp")
	f.Uint64Var(&o.Seed, "seed", 1, "of arrivals and noise; the same seed gives the same run")
	f.StringVar(&o.Report, "report", "", "file of the report [report.html in --dir]")
	return cmd
}

func (c *cli) runDemo(cmd *cobra.Command, engine string, o app.DemoOptions) error {
	if engine != "simulator" && engine != app.EngineLlama {
		return usageError{fmt.Errorf("--engine is %q: give simulator or %s", engine, app.EngineLlama)}
	}
	if o.Requests < 0 {
		return usageError{fmt.Errorf("--requests is %d: give 0 for all, or a number of requests", o.Requests)}
	}
	quiet := !cmd.Flags().Changed("log-level")
	s, log, err := c.prepare(cmd)
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("dir") && s.Dir == app.DefaultSettings().Dir {
		s.Dir = "kvwhatif-demo"
		if engine == app.EngineLlama {
			s.Dir = "kvwhatif-demo-llama"
		}
	}
	if quiet && s.Log.Level == app.DefaultSettings().Log.Level { // a person follows the progress line
		s.Log.Level = "warn"
		if log, err = newLogger(s.Log); err != nil {
			return err
		}
	}
	line := newProgress(os.Stderr)
	o.Progress = line.tell
	if engine == app.EngineLlama {
		result, err := app.DemoLlama(cmd.Context(), s, o, log)
		line.end()
		if err != nil {
			return err
		}
		return c.printDemo(cmd, result, result.Report)
	}
	result, err := app.Demo(cmd.Context(), s, o, log)
	line.end()
	if err != nil {
		return err
	}
	return c.printDemo(cmd, result, result.Report)
}

func (c *cli) printDemo(cmd *cobra.Command, result interface{ Text() string }, report string) error {
	return c.print(cmd.OutOrStdout(), result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s\nreport: %s\n", result.Text(), report)
		return err
	})
}
