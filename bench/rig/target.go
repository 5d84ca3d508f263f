package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kvwhatif/kvwhatif/bench/peer"
)

// Root is the directory of the module that the working directory is in.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module (run the bench inside it): %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds kvwhatif into dir, as a release is built, and returns its path.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	program := filepath.Join(dir, "kvwhatif")
	args := append(append([]string{"build"}, flags...), "-o", program, "github.com/kvwhatif/kvwhatif/cmd/kvwhatif")
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if len(flags) > 0 {
		cmd.Env = os.Environ()
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kvwhatif: %w: %s", err, out)
	}
	return program, nil
}

// Target is a receiver of OTLP that is measured.
type Target struct {
	*Process
	GRPC string // its address
}

// Collect starts `kvwhatif collect` on a broker.
func Collect(ctx context.Context, dir, program string, b *Broker, env ...string) (*Target, error) {
	p, at, err := LaunchStage(ctx, dir, program, env, "collect", "--kafka", b.Addr(), "--grpc", "127.0.0.1:0", "--http", "-", "--pprof", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Target{p, at.GRPC}, nil
}

// attempts are made where a port that was free may be taken by now.
const attempts = 3

// PeerToKafka starts the peer on a broker.
func PeerToKafka(ctx context.Context, dir, program string, b *Broker) (*Target, error) {
	for attempt := 1; ; attempt++ {
		t, err := peerToKafka(ctx, dir, program, b)
		if err == nil || attempt == attempts {
			return t, err
		}
	}
}

func peerToKafka(ctx context.Context, dir, program string, b *Broker) (*Target, error) {
	listen, err := FreePort()
	if err != nil {
		return nil, err
	}
	args, err := peer.Write(dir, "tokafka", peer.ToKafka(listen, b.Addr()))
	if err != nil {
		return nil, err
	}
	p, err := Launch(dir, program, nil, args...)
	if err != nil {
		return nil, err
	}
	if err := Listens(ctx, p, listen); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start the peer: %w", err)
	}
	return &Target{p, listen}, nil
}
