package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/config"
)

// cli is what the flags of every command fill.
type cli struct {
	file    string // --config
	output  string // --output
	started bool   // the command line was understood, and a command runs
}

// flagKeys maps flags to the settings that they set, where the names differ.
var flagKeys = map[string]string{
	"dir": "dir", "kafka": "kafka.brokers", "clickhouse": "clickhouse.dsn", "clickhouse-cluster": "clickhouse.cluster", "listen": "listen",
	"log-level": "log.level", "log-format": "log.format",
	"grpc": "collect.grpc", "http": "collect.http",
	"from-beginning": "load.from_beginning", "anchor": "load.anchor",
	"engine-tier": "replay.engine.tier", "engine-may-drop": "replay.engine.may_drop",
	"executor": "replay.executor", "otlp": "replay.otlp", "share": "replay.share", "rate": "replay.rate",
	"control": "replay.control", "parallel": "replay.parallel", "kill-file": "replay.kill",
	"deadline": "replay.deadline", "idle-queue": "replay.idle.queue", "breaker": "replay.breaker.factor", "adapt": "replay.adapt", "plans": "replay.plans",
	"window": "calibrate.window", "hold-out": "calibrate.hold_out", "min-n": "calibrate.min_n", "key": "calibrate.key",
	"address": "serve.address", "page": "page.address", "price-every": "serve.price_every", "coordinators": "serve.coordinators", "policies": "serve.policies",
}

func newRoot() (*cobra.Command, *cli) {
	c := &cli{}
	root := &cobra.Command{
		Use:   "kvwhatif",
		Short: "Does reusing a KV cache pay? Measures the path not taken.",
		Long: `kvwhatif tells people who serve LLMs whether fetching a cached prefix pays, by
measuring what recomputing it would have cost.

Begin with "kvwhatif demo", or with "kvwhatif up" and an OTLP exporter.
Settings come from flags, then KVWHATIF_* variables, then a YAML file
(--config, ./kvwhatif.yaml or your configuration directory), then defaults;
"kvwhatif config show" tells which.

Exit codes: 0 done; 1 failed; 2 wrong usage; 3 nothing was published; 4 a verdict
that --fail-on lists.`,
		Version: app.Version, SilenceErrors: true, SilenceUsage: true, SuggestionsMinimumDistance: 2,
		Args: cobra.ArbitraryArgs, RunE: helpOrUnknown,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]string{"text", "json"}, c.output) {
				return usageError{fmt.Errorf("--output is %q: give text or json", c.output)}
			}
			return nil
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: see `%s --help`", err, cmd.CommandPath())}
	})
	root.SetVersionTemplate(versionLine() + "\n")
	f := root.PersistentFlags()
	f.StringVar(&c.file, "config", "", "YAML file of settings")
	f.StringVarP(&c.output, "output", "o", "text", "text or json")
	f.String("log-level", "", "debug, info, warn or error [info]")
	f.String("log-format", "", "text or json [text]")
	complete(root, "output", "text", "json")
	complete(root, "log-level", "debug", "info", "warn", "error")
	complete(root, "log-format", "text", "json")
	root.AddCommand(
		c.demo(), c.up(), c.collect(), c.load(), c.replay(), c.calibrate(), c.serve(),
		c.coefficients(), c.verdict(), c.evaluate(), c.report(), c.tail(), c.dlq(), c.simulate(), c.probe(), c.migrate(), c.rule(), c.config(), c.version())
	c.watch(root)
	return root, c
}

// watch has every command below note that it started: an error before that is one
// of the command line.
func (c *cli) watch(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.watch(sub)
		if run := sub.RunE; run != nil {
			sub.RunE = func(cmd *cobra.Command, args []string) error {
				c.started = true
				return run(cmd, args)
			}
		}
	}
}

// group is a command that only holds others.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, RunE: helpOrUnknown, SuggestionsMinimumDistance: 2}
	cmd.AddCommand(below...)
	return cmd
}

// helpOrUnknown is what a command does that only holds others: help, or one line
// about a command that is not there.
func helpOrUnknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	advice := fmt.Sprintf("see `%s --help`", cmd.CommandPath())
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		advice = "did you mean " + strings.Join(like, " or ") + "?"
	}
	return usageError{fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), advice)}
}

// settings loads what the command's flags, the environment and the file say.
func (c *cli) settings(cmd *cobra.Command) (*app.Settings, *config.Loaded, error) {
	s := app.DefaultSettings()
	loaded, err := config.Load(&s, config.Options{File: c.file, Flags: cmd.Flags(), FlagKeys: flagKeys})
	if err != nil {
		return nil, nil, usageError{err}
	}
	return &s, loaded, nil
}

// load gives the settings and the logger of a command that runs.
func (c *cli) prepare(cmd *cobra.Command) (*app.Settings, *slog.Logger, error) {
	s, loaded, err := c.settings(cmd)
	if err != nil {
		return nil, nil, err
	}
	log, err := newLogger(s.Log)
	if err != nil {
		return nil, nil, usageError{err}
	}
	for _, name := range loaded.Unknown {
		if name == clickhouse.LibraryVariable {
			continue
		}
		log.Warn("an environment variable names no setting; see `kvwhatif config show`", "variable", name)
	}
	return s, log, nil
}

func newLogger(s app.LogSettings) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.Level)); err != nil {
		return nil, fmt.Errorf("log.level is %q: set debug, info, warn or error", s.Level)
	}
	opts := &slog.HandlerOptions{Level: level}
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts)), nil
}

// print writes v as JSON where that was asked for, and text otherwise.
func (c *cli) print(w io.Writer, v any, text func(io.Writer) error) error {
	if c.output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	return text(&plain{w: w})
}

// backendFlags adds the flags of commands that reach outside servers.
func backendFlags(cmd *cobra.Command, names ...string) {
	help := map[string]string{
		"kafka":      "brokers of Kafka, host:port[,host:port]",
		"clickhouse": "DSN of ClickHouse, such as http://user:password@host:8123/kvwhatif; of shards, one after the other, parted by commas",
		"listen":     "host:port of /metrics, /healthz and /readyz",
		"dir":        "directory of state, keys and embedded engines",
	}
	for _, n := range names {
		if n == "kafka" {
			cmd.Flags().StringSlice(n, nil, help[n])
			continue
		}
		cmd.Flags().String(n, "", help[n])
		if n == "clickhouse" {
			cmd.Flags().String("clickhouse-cluster", "", "name of the shards in the servers' remote_servers")
		}
	}
}

// noArgs refuses arguments with the name of what was meant to have none.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, but was given %s", cmd.CommandPath(), strings.Join(args, " "))}
	}
	return nil
}
