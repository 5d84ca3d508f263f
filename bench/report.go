package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// report is all that one run found.
type report struct {
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"`
	Tables   []*Table          `json:"tables"`
}

func newReport(b *bench) *report {
	r := &report{
		Date: now(), Machine: machine(),
		Versions: map[string]string{
			"kvwhatif": commit(b.root), "Go": runtime.Version(), "Apache Kafka": kafkatest.Version, "ClickHouse": clickhouse.EngineVersion,
			"OpenTelemetry Collector": peer.Version,
		},
	}
	if b.collector == "" {
		r.Versions["OpenTelemetry Collector"] = "left out: " + peer.Variable + "=0"
	}
	return r
}

// machine is processor, cores, memory and how busy others kept it.
func machine() string {
	field := func(path, name string) string {
		body, _ := os.ReadFile(path)
		for _, line := range strings.Split(string(body), "\n") {
			if v, ok := strings.CutPrefix(line, name); ok {
				return strings.TrimLeft(v, "\t :")
			}
		}
		return "unknown"
	}
	return fmt.Sprintf("%s, %d cores, memory %s, %s/%s", field("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		field("/proc/meminfo", "MemTotal"), runtime.GOOS, runtime.GOARCH)
}

func now() string { return time.Now().UTC().Format("2006-01-02 15:04 UTC") }

// load is how many others wanted the machine in the last minute.
func load() string {
	body, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(body), " ")
	return first
}

// add takes a table in, in the place of an older one.
func (r *report) add(t *Table) {
	r.Tables = slices.DeleteFunc(r.Tables, func(old *Table) bool { return old.ID == t.ID })
	r.Tables = append(r.Tables, t)
	slices.SortFunc(r.Tables, func(x, y *Table) int { return slices.Index(ids(), x.ID) - slices.Index(ids(), y.ID) })
}

// over puts the report over an older one, of which tables stay that were not
// asked for again.
func (r *report) over(path string) (*report, error) {
	body, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	merged := *r
	merged.Tables = nil
	var old report
	if err := json.Unmarshal(body, &old); err != nil {
		return nil, fmt.Errorf("read the older results %s (delete it to begin anew): %w", path, err)
	}
	for _, t := range append(old.Tables, r.Tables...) {
		merged.add(t)
	}
	return &merged, nil
}

// commit is git's name for what is measured.
func commit(root string) string {
	cmd := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// give writes the report where the options say.
func (r *report) give(o options, out io.Writer) error {
	if o.json {
		if err := r.writeJSON(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "\n%s\n", r.head())
	}
	all := r
	if o.results != "" {
		path := filepath.Join(o.results, "latest.json")
		var err error
		if all, err = r.over(path); err != nil {
			return err
		}
		if err := r.file(path, all.writeJSON); err != nil {
			return err
		}
	}
	if o.write != "" {
		return r.file(o.write, all.page)
	}
	return nil
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *report) file(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return err
	}
	return f.Close()
}

// head says what was measured, on what and when.
func (r *report) head() string {
	v := r.Versions
	return fmt.Sprintf("%s, on %s.\nkvwhatif %s, %s, Apache Kafka %s, ClickHouse %s, OpenTelemetry Collector %s.",
		r.Date, r.Machine, v["kvwhatif"], v["Go"], v["Apache Kafka"], v["ClickHouse"], v["OpenTelemetry Collector"])
}
