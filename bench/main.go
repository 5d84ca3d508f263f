// Command bench measures kvwhatif against its targets, and against an
// OpenTelemetry Collector that does the same work in the same run. It prints a
// table for each question, the ratio last in each line.
//
//	go run ./bench                      everything, some 20 minutes
//	go run ./bench --only P3,P4         some of it
//	go run ./bench --write docs/PERFORMANCE.md --results bench/results
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// options are what the command line says.
type options struct {
	only     []string
	seconds  time.Duration // of one round
	rounds   int
	spans    int // of a topic that is read, plain; a quarter of that with candidates
	senders  int
	perReq   int // spans a request
	warm     time.Duration
	demoDir  string // of a demo that was run; empty: one is run
	program  string // kvwhatif, built; empty: it is built
	write    string // Markdown
	results  string // directory of JSON
	profiles string // directory of profiles
	json     bool
	shapes   []asked
	largest  int // of what is grown; 0: all. Tests make it small.
}

func main() {
	clickhouse.RunIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{shapes: allShapes}
	f := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	f.StringSliceVar(&o.only, "only", nil, "some of "+strings.Join(ids(), ", ")+"; none: all")
	f.DurationVar(&o.seconds, "seconds", 5*time.Second, "how long a round lasts")
	f.IntVar(&o.rounds, "rounds", 5, "rounds, interleaved with the peer's")
	f.IntVar(&o.spans, "spans", 2_000_000, "plain spans of a topic that is read; a quarter of them with candidates")
	f.IntVar(&o.senders, "senders", 8, "connections that send at once")
	f.IntVar(&o.perReq, "spans-a-request", 512, "spans of a request, where that is not what is varied")
	f.StringVar(&o.demoDir, "demo-dir", "", "directory of a demo that was run, for P6; empty: one is run")
	f.StringVar(&o.program, "program", "", "kvwhatif, built; empty: it is built")
	f.StringVar(&o.write, "write", "", "write the tables to this page, such as docs/PERFORMANCE.md")
	f.StringVar(&o.results, "results", "", "write the tables as JSON into this directory")
	f.StringVar(&o.profiles, "profiles", "", "write CPU profiles as text into this directory")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.warm = min(time.Second, o.seconds/2)
	for _, id := range o.only {
		if !slices.Contains(ids(), id) {
			return o, fmt.Errorf("--only has %q: give some of %s", id, strings.Join(ids(), ", "))
		}
	}
	if o.seconds <= 0 || o.rounds < 1 || o.spans < 1000 || o.senders < 1 || o.perReq < 1 {
		return o, errors.New("--seconds, --rounds, --senders and --spans-a-request must be above 0, --spans 1000 or more")
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	report, err := b.all(ctx)
	if err != nil {
		return err
	}
	return report.give(o, os.Stdout)
}
