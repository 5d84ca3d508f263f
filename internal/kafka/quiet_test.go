package kafka

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuietLogsEachKindOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := logTo(slog.New(slog.NewTextHandler(&out, nil)))
		for i := range 5 {
			log.Printf("partition %d: %v", i, "no space")
			log.Printf("it was closed: %v", fmt.Errorf("read: %w", context.Canceled))
		}
		log.Printf("something else")
		time.Sleep(quietFor)
		log.Printf("partition %d: %v", 9, "no space")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 3)
		require.Contains(t, lines[0], `msg="kafka client: partition 0: no space"`)
		require.Contains(t, lines[1], "something else")
		require.Contains(t, lines[2], "partition 9")
		require.Contains(t, lines[2], "held_back=4")
	})
}
