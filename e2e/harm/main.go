// Command harm measures on llama.cpp servers of this machine what replays at a
// budget cost live traffic: blocks with and without them take turns. It prints the
// ratios of mean and p90 TTFT with their bounds, and exits with 1 where an upper
// bound is above the limit.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/replay/budget"
	"github.com/kvwhatif/kvwhatif/replay/harm/engine"
)

// limit is the ratio that a budget of 1 % of cost may not exceed.
const limit = 1.05

func main() {
	s := engine.Default()
	dump := flag.String("blocks", "", "file to write every block's requests to, as JSON lines")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.IntVar(&s.Pairs, "pairs", s.Pairs, "of blocks, even")
	flag.IntVar(&s.Traffic.Requests, "requests", s.Traffic.Requests, "of a block")
	flag.DurationVar(&s.Traffic.Every, "every", s.Traffic.Every, "mean time between requests")
	flag.Float64Var(&s.Limits.Share, "share", s.Limits.Share, "of production's cost that replays may take")
	flag.Float64Var(&s.Rate, "rate", s.Rate, "of decisions of which a path not taken is drawn")
	flag.Uint64Var(&s.Seed, "seed", s.Seed, "of traffic, draws and order")
	open := flag.Bool("open", false, "no idle gate, no breaker: to see harm")
	flag.Parse()
	if *open {
		s.Idle, s.Breaker = budget.Idle{}, budget.BreakerConfig{}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, s, *dump)
	if err == nil {
		err = write(os.Stdout, &r, *asJSON)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "harm:", err)
		os.Exit(2)
	case above(&r.Result):
		fmt.Fprintf(os.Stderr, "harm: an upper bound is above %.2f; the noise of the machine is in it too: see its ratio\n", limit)
		os.Exit(1)
	}
}

// above judges by the undisturbed pairs where there are some.
func above(r *engine.Result) bool {
	mean, p90 := r.Mean, r.P90
	if r.Undisturbed != nil {
		mean, p90 = r.Undisturbed.Mean, r.Undisturbed.P90
	}
	return mean.Upper > limit || p90.Upper > limit
}

// report is a result with what it was measured by.
type report struct {
	engine.Result
	Began time.Time `json:"began"`
	Wall  float64   `json:"wall_seconds"`
	CPUs  int       `json:"cpus"`
	Load  []string  `json:"load_average"` // before and after
}

func run(ctx context.Context, s engine.Settings, dump string) (out report, err error) {
	dir, err := os.MkdirTemp("", "kvwhatif-harm-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	out.Began, out.CPUs, out.Load = time.Now().UTC(), runtime.NumCPU(), []string{load()}
	blocks := io.Discard
	if dump != "" {
		file, err := os.Create(dump)
		if err != nil {
			return out, err
		}
		defer file.Close()
		blocks = file
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	out.Result, err = engine.Measure(ctx, dir, s, log, func(b engine.Block) {
		if err := json.NewEncoder(blocks).Encode(b); err != nil {
			log.Warn("harm: a block was not written", "error", err)
		}
		sum := 0.0
		for _, x := range b.TTFT {
			sum += x
		}
		fmt.Fprintf(os.Stderr, "%5.0f s  pair %d, with replays %5v: %d requests, mean TTFT %6.1f ms, %d legs, waited %.0f %%\n",
			time.Since(out.Began).Seconds(), b.Pair, b.With, len(b.TTFT), 1e3*sum/float64(len(b.TTFT)), b.Legs, 100*b.Waited)
	})
	out.Wall, out.Load = time.Since(out.Began).Seconds(), append(out.Load, load())
	return out, err
}

// load is the load average; "" where the system has no such file.
func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(raw))[:min(3, len(strings.Fields(string(raw))))], " ")
}

func write(w io.Writer, r *report, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	if _, err := fmt.Fprintf(w, "%s, %.0f s, %d CPUs, load average %s\n\n", r.Began.Format(time.RFC3339), r.Wall, r.CPUs, strings.Join(r.Load, " before, ")+" after"); err != nil {
		return err
	}
	return r.Print(w)
}
