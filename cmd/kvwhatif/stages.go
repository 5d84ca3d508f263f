package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
)

// stage is a command that runs until it is stopped.
type stage func(context.Context, *app.Settings, *slog.Logger, app.Announce) error

func (c *cli) stage(use, short, long string, run stage, flags ...string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, log, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			return run(cmd.Context(), s, log, func(at app.Endpoints) {
				_ = c.print(cmd.OutOrStdout(), at, func(w io.Writer) error { return endpointsText(w, at) })
			})
		},
	}
	backendFlags(cmd, flags...)
	return cmd
}

func endpointsText(w io.Writer, at app.Endpoints) error {
	for _, e := range []struct{ name, value string }{
		{"directory", at.Dir}, {"OTLP/gRPC", at.GRPC}, {"OTLP/HTTP", at.HTTP}, {"Kafka", at.Kafka},
		{"ClickHouse (read only)", at.ClickHouse}, {"coefficients", at.Coefficients}, {"page", at.Page}, {"executor", at.Executor},
		{"sampling plan", at.Plan}, {"metrics", at.Metrics},
	} {
		if e.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-24s%s\n", e.name, e.value); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, "ready; ends with Ctrl-C")
	return err
}

func (c *cli) up() *cobra.Command {
	cmd := c.stage("up", "Runs every stage in one process, on embedded engines",
		`Runs collect, load and serve in one process. Kafka and ClickHouse are embedded
in --dir, unless --kafka or --clickhouse name others. Their ports are chosen at
the first start and kept in the directory.`,
		app.Up, "kafka", "clickhouse", "dir", "listen")
	collectFlags(cmd)
	doorFlags(cmd)
	cmd.Flags().String("address", "", "host:port of the coefficient server [127.0.0.1:9470]")
	pageFlag(cmd)
	return cmd
}

// pageFlag is where people look.
func pageFlag(cmd *cobra.Command) {
	cmd.Flags().String("page", "", "host:port of the page for people; - for none [127.0.0.1:9474]")
}

func (c *cli) collect() *cobra.Command {
	cmd := c.stage("collect", "Takes OTLP traces and brings them to Kafka",
		`Takes OTLP over gRPC and HTTP (protobuf and JSON). A request is accepted only
once all in-sync replicas of Kafka have it.`,
		app.Collect, "kafka", "listen")
	collectFlags(cmd)
	doorFlags(cmd)
	profileFlag(cmd)
	return cmd
}

func collectFlags(cmd *cobra.Command) {
	cmd.Flags().String("grpc", "", "host:port of OTLP/gRPC; - for none [127.0.0.1:4317]")
	cmd.Flags().String("http", "", "host:port of OTLP/HTTP; - for none [127.0.0.1:4318]")
}

// profileFlag is for who works on kvwhatif.
func profileFlag(cmd *cobra.Command) {
	cmd.Flags().String("pprof", "", "host:port of Go's profiles of this process")
	_ = cmd.Flags().MarkHidden("pprof")
}

func (c *cli) load() *cobra.Command {
	cmd := c.stage("load", "Brings parts from Kafka into ClickHouse",
		`Inserts what it reads, makes the rollups of the minutes that were touched again,
and then commits. Every step can be repeated, so a crash loses and doubles
nothing. With --from-beginning it reads everything that Kafka still has.`,
		app.Load, "kafka", "clickhouse", "listen")
	profileFlag(cmd)
	cmd.Flags().Bool("from-beginning", false, "read everything that Kafka still has, again")
	cmd.Flags().String("anchor", "", "contract, or engine where no coordinator writes spans [contract]")
	complete(cmd, "anchor", "contract", "engine")
	return cmd
}

func (c *cli) tail() *cobra.Command {
	var beginning bool
	var limit int
	cmd := &cobra.Command{
		Use: "tail", Short: "Prints requests as they come through Kafka, a line each", Args: noArgs,
		Long: `Prints requests as they come through Kafka, a line each. Without --kafka it looks
in --dir for a running "kvwhatif up".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, log, err := c.prepare(cmd)
			if err != nil {
				return err
			}
			asJSON, out := c.output == "json", cmd.OutOrStdout()
			if !asJSON {
				out = &plain{w: out}
			}
			return app.Tail(cmd.Context(), s, log, app.TailOptions{Beginning: beginning, Limit: limit, JSON: asJSON, Out: out})
		},
	}
	backendFlags(cmd, "kafka", "dir")
	cmd.Flags().BoolVar(&beginning, "from-beginning", false, "begin with the oldest message that Kafka has")
	cmd.Flags().IntVarP(&limit, "lines", "n", 0, "end after so many lines; 0: go on")
	return cmd
}

func (c *cli) serve() *cobra.Command {
	cmd := c.stage("serve", "Gives coefficients out to coordinators",
		`Gives the newest signed coefficients out over HTTP, keeps the link prices in them
current, and hears what coordinators made of them. It signs prices with the
calibrator's key, which it makes if it is missing.`,
		app.Serve, "clickhouse", "dir", "listen")
	doorFlags(cmd)
	pageFlag(cmd)
	f := cmd.Flags()
	f.String("address", "", "host:port of the coefficient server [127.0.0.1:9470]")
	f.String("price-every", "", "refresh link prices so often; 0s for never [5s]")
	f.Int("coordinators", 0, "that share the links; 0: as many as report a status")
	f.StringSlice("policies", nil, "whose demand prices a link; none: everybody's")
	f.String("key", "", "PEM file of the Ed25519 key, made if missing [calibrate.pem in --dir]")
	complete(cmd, "policies", app.Policies()...)
	return cmd
}
