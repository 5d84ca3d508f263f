// Command kvwhatif tells whether reusing a KV cache pays, by measuring the path
// not taken. It turns flags into settings; internal/app does the rest.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/kvwhatif/kvwhatif/internal/app"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
)

// Exit codes.
const (
	exitFailed       = 1
	exitUsage        = 2
	exitNotPublished = 3
	exitVerdict      = 4
)

func main() {
	clickhouse.RunIfChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// run executes one command line and gives its exit code.
func run(ctx context.Context, args []string) int {
	root, c := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 128 + int(syscall.SIGINT)
	}
	for _, line := range strings.Split(err.Error(), "\n") {
		fmt.Fprintln(&plain{w: os.Stderr}, "kvwhatif: "+line)
	}
	var usage usageError
	var verdict failOnError
	switch {
	case errors.As(err, &usage), !c.started:
		return exitUsage
	case errors.As(err, &verdict):
		return exitVerdict
	case errors.Is(err, app.ErrNotPublished):
		return exitNotPublished
	}
	return exitFailed
}

// usageError is a command line that can not be understood.
type usageError struct{ error }

// Unwrap gives what was wrong.
func (u usageError) Unwrap() error { return u.error }
