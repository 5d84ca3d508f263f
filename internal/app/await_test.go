package app

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/kafka"
)

// lines gives what is logged.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default: // nobody listens any more
	}
	return len(b), nil
}

// TestAStageWaitsForItsServers, says so, and goes on when they are there.
func TestAStageWaitsForItsServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := DefaultSettings()
	s.Kafka = kafka.Brokers(freeAddr(t))
	said := make(lines, 100)
	opened := make(chan error, 1)
	go func() {
		_, err := awaitOutside(ctx, &s, true, false, slog.New(slog.NewTextHandler(said, nil)))
		opened <- err
	}()
	for range 2 {
		require.True(t, strings.Contains(<-said, "waiting for a server that does not answer"))
	}
	broker, err := kafka.StartEmbedded(kafka.EmbeddedConfig{Dir: t.TempDir(), Addr: s.Kafka.Brokers[0], Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer broker.Stop()
	require.NoError(t, <-opened)
}

func TestWaitingEndsWithItsContextAndIsNotForMistakes(t *testing.T) {
	s := DefaultSettings()
	log := slog.New(slog.DiscardHandler)
	_, err := awaitOutside(t.Context(), &s, true, true, log)
	require.ErrorContains(t, err, "no Kafka: give --kafka")
	s.ClickHouse.DSN = "ftp://localhost"
	_, err = awaitOutside(t.Context(), &s, false, true, log)
	require.ErrorContains(t, err, "needs to begin with http://")
	s.Kafka = kafka.Brokers(freeAddr(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said := make(lines, 100)
	ended := make(chan error, 1)
	go func() {
		_, err := awaitOutside(ctx, &s, true, false, slog.New(slog.NewTextHandler(said, nil)))
		ended <- err
	}()
	<-said
	cancel()
	require.Error(t, <-ended)
}
