package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kvwhatif/kvwhatif/bench/rig"
)

// profileLines of a profile are kept.
const profileLines = 36

func min1(of []float64) float64 { return slices.Min(of) }
func max1(of []float64) float64 { return slices.Max(of) }

// profile keeps where a contender's CPU goes while it is sent to. It is not part
// of a round.
func (b *bench) profile(ctx context.Context, c *contender, name string) error {
	if b.profiles == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	seconds := max(1, int(b.seconds.Seconds()))
	group.Go(func() error {
		_, err := c.senders.For(ctx, time.Duration(seconds+1)*time.Second)
		return err
	})
	group.Go(func() error { return b.keepProfile(ctx, c.target.Process, name, seconds) })
	return group.Wait()
}

// views of a process that are kept: where its CPU goes, by what is running and by
// what has called that, and what it allocates.
var views = []struct{ name, source, flags string }{
	{"CPU, by function", "profile", "-flat"},
	{"CPU, with what a function calls", "profile", "-cum"},
	{"bytes allocated since the start, with what a function calls", "allocs", "-sample_index=alloc_space -cum"},
}

// keepProfile writes the first lines of profiles as text.
func (b *bench) keepProfile(ctx context.Context, p *rig.Process, name string, seconds int) error {
	addr, err := p.Pprof()
	if err != nil {
		return fmt.Errorf("profile of %s: %w", name, err)
	}
	raw := map[string]string{}
	for source, query := range map[string]string{"profile": fmt.Sprintf("?seconds=%d", seconds), "allocs": ""} {
		raw[source] = filepath.Join(b.dir, name+"."+source)
		if err := download(ctx, "http://"+addr+"/debug/pprof/"+source+query, raw[source]); err != nil {
			return fmt.Errorf("profile of %s: %w", name, err)
		}
	}
	var text strings.Builder
	for _, v := range views {
		args := append(append([]string{"tool", "pprof", "-top", "-nodecount=60"}, strings.Fields(v.flags)...), b.kvwhatif, raw[v.source])
		out, err := exec.CommandContext(ctx, "go", args...).Output()
		if err != nil {
			return fmt.Errorf("read the profile of %s: %w", name, err)
		}
		lines := strings.Split(string(out), "\n")
		fmt.Fprintf(&text, "== %s\n%s\n\n", v.name, strings.Join(lines[:min(len(lines), profileLines)], "\n"))
	}
	if err := os.MkdirAll(b.profiles, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.profiles, name+".txt"), []byte(text.String()), 0o644)
}

func download(ctx context.Context, url, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(f, answer.Body)
	return err
}
