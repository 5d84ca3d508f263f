// Package peer is the OpenTelemetry Collector that kvwhatif is measured against:
// how it is built, and the two ways in which it is run.
package peer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Version is that of the collector's builder and components.
const Version = "0.165.0"

//go:embed builder.yaml
var manifest []byte

// Variable set to 0 leaves the peer out.
const Variable = "BENCH_PEER"

// ErrLeftOut is the error where Variable says so.
var ErrLeftOut = errors.New(Variable + "=0 leaves the peer out")

// Install builds the peer into the user's cache, once, which takes minutes, and
// returns its path.
func Install(ctx context.Context, say func(string)) (string, error) {
	if os.Getenv(Variable) == "0" {
		return "", ErrLeftOut
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user cache: %w", err)
	}
	home := filepath.Join(cache, "kvwhatif", "peer", Version)
	program := filepath.Join(home, "peer")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("make the peer's cache: %w", err)
	}
	lock := flock.New(filepath.Join(home, "lock"))
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("lock the peer's cache: %w", err)
	}
	defer lock.Unlock()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	say("building the OpenTelemetry Collector " + Version + ", once; this takes minutes")
	if err := build(ctx, home, program); err != nil {
		return "", fmt.Errorf("build the peer (%s=0 leaves it out): %w", Variable, err)
	}
	return program, nil
}

// build makes the builder, and has it build the collector.
func build(ctx context.Context, home, program string) error {
	work, err := os.MkdirTemp(home, "build")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "builder.yaml"), manifest, 0o644); err != nil {
		return err
	}
	run := func(name string, args ...string) error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = work, append(os.Environ(), "GOBIN="+work, "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out[max(0, len(out)-1000):])
		}
		return nil
	}
	if err := run("go", "install", "go.opentelemetry.io/collector/cmd/builder@v"+Version); err != nil {
		return err
	}
	if err := run(filepath.Join(work, "builder"), "--config", "builder.yaml", "--ldflags=-s -w"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "build", "peer"), program)
}
