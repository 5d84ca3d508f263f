package app

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/kvwhatif/kvwhatif/internal/fault"
)

// Waits for servers that are away at the start: doubling, each cut by up to a half
// at random, so that what starts together does not ask together.
const (
	firstAwait = 200 * time.Millisecond
	lastAwait  = 10 * time.Second
)

// awaitOutside is OpenOutside for a stage that may start before its servers do: it
// waits for those that are away, and says so. An error that waiting does not mend
// comes back at once.
func awaitOutside(ctx context.Context, s *Settings, needKafka, needClickHouse bool, log *slog.Logger) (*Backend, error) {
	wait := firstAwait
	for {
		b, err := OpenOutside(ctx, s, needKafka, needClickHouse)
		var known *fault.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &known) || known.Class == fault.Permanent {
			return b, err
		}
		pause := wait/2 + rand.N(wait/2)
		log.Warn("waiting for a server that does not answer; nothing is read until it does", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
		wait = min(2*wait, lastAwait)
	}
}
