package clickhouse_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
)

// From nothing to a server that answers and has its database, and its end.
func BenchmarkStartAndStop(b *testing.B) {
	engine := clickhousetest.RequireEngine(b)
	dir := b.TempDir()
	for b.Loop() {
		server, err := clickhouse.StartEmbedded(b.Context(), clickhouse.EmbeddedConfig{Dir: dir, Engine: engine})
		require.NoError(b, err)
		require.NoError(b, server.Stop(context.Background()))
	}
}
