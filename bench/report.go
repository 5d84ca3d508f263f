package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/kvwhatif/kvwhatif/bench/peer"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/kafka/kafkatest"
)

// report is all that one run found.
type report struct {
	Date     string            `json:"date"`
	Command  string            `json:"command"`
	Machine  string            `json:"machine"`
	Versions map[string]string `json:"versions"`
	Tables   []*Table          `json:"tables"`
}

func newReport(b *bench) *report {
	r := &report{
		Date: time.Now().UTC().Format("2006-01-02 15:04 UTC"), Command: "go run ./bench " + strings.Join(os.Args[1:], " "), Machine: machine(),
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
	load, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s, %d cores, memory %s, %s/%s, load before %s", field("/proc/cpuinfo", "model name"), runtime.NumCPU(),
		field("/proc/meminfo", "MemTotal"), runtime.GOOS, runtime.GOARCH, first)
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
	if o.results != "" {
		if err := r.file(filepath.Join(o.results, "latest.json"), r.writeJSON); err != nil {
			return err
		}
	}
	if o.write != "" {
		return r.file(o.write, r.page)
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
