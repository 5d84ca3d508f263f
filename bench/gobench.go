package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// figures are what a Go benchmark printed, by unit.
type figures map[string]float64

// goBench runs benchmarks of a package where they are, and gives what each
// printed, a round an element.
func (b *bench) goBench(ctx context.Context, pkg, pattern string, rounds int) (map[string][]figures, error) {
	cmd := exec.CommandContext(ctx, "go", "test", pkg, "-run", "^$", "-bench", pattern, "-benchmem", "-cpu", "1",
		"-benchtime", b.seconds.String(), "-count", strconv.Itoa(rounds))
	cmd.Dir = b.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w: %s", pattern, pkg, err, out[max(0, len(out)-1000):])
	}
	return parseBench(out), nil
}

// parseBench reads lines such as "BenchmarkX/plain  100  12 ns/op  3 B/op".
func parseBench(out []byte) map[string][]figures {
	found := map[string][]figures{}
	for s := bufio.NewScanner(bytes.NewReader(out)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		f := figures{}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				f[fields[i+1]] = v
			}
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		found[name] = append(found[name], f)
	}
	return found
}

// of gives one unit of all rounds.
func of(list []figures, unit string) (out []float64) {
	for _, f := range list {
		if v, ok := f[unit]; ok {
			out = append(out, v)
		}
	}
	return out
}

// partsABenchmark is how many parts one operation of BenchmarkBytesToBlocks is
// about.
const partsABenchmark = 50 * 400

// loading is load's half, measured by load's own benchmark.
func (b *bench) loading(ctx context.Context, shape string) (cost, error) {
	b.say("P1 %s: load's half", shape)
	found, err := b.goBench(ctx, "./collector/load", "^BenchmarkBytesToBlocks$/^"+shape+"$", min(b.rounds, 3))
	if err != nil {
		return cost{}, err
	}
	list := found["BytesToBlocks/"+shape]
	c := cost{nanos: of(list, "cpu-ns/part")}
	for _, n := range of(list, "allocs/op") {
		c.allocs = append(c.allocs, n/partsABenchmark)
	}
	if len(c.nanos) == 0 {
		return c, fmt.Errorf("collector/load has no benchmark BytesToBlocks/%s that prints cpu-ns/part", shape)
	}
	return c, nil
}

// decide asks what a decision of the coefficient client costs.
func (b *bench) decide(ctx context.Context) (*Table, error) {
	t := &Table{ID: "P8", Title: "the coefficient client, one decision", First: "while", Columns: []string{"ns", "allocations"},
		Notes: []string{"Target: 200 ns, no allocation, while being republished. Three candidates; see calibrate/client/decide_test.go."}}
	found, err := b.goBench(ctx, "./calibrate/client", "^BenchmarkDecide$", min(b.rounds, 3))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"quiet", "republished"} {
		list := found["Decide/"+name]
		ns := median(of(list, "ns/op"))
		t.Rows = append(t.Rows, Row{Name: name, Values: []Number{ns, median(of(list, "allocs/op"))}, Ratio: ns / 200, To: "target"})
	}
	return t, nil
}

// fleet asks what a simulated request costs.
func (b *bench) fleet(ctx context.Context) (*Table, error) {
	t := &Table{ID: "P9", Title: "the fleet simulator, one core", First: "requests", Columns: []string{"µs/request", "s for 1 M requests"},
		Notes: []string{"Target: 1 M requests in 10 s, and a cost that does not grow with their number; see replay/fleet/bench_test.go."}}
	found, err := b.goBench(ctx, "./replay/fleet", "^BenchmarkFleet$", 1)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"25k", "100k"} {
		ns := median(of(found["Fleet/"+name], "ns/request"))
		t.Rows = append(t.Rows, Row{Name: name, Values: []Number{ns / 1000, ns / 1000}, Ratio: ns / 10_000, To: "target"})
	}
	return t, nil
}
