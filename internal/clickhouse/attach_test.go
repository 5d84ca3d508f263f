package clickhouse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAttach(t *testing.T) {
	dir := t.TempDir()
	_, err := Attach(dir, 8123)
	require.ErrorContains(t, err, "no embedded ClickHouse was ever started in "+dir)
	kept, err := writeFiles(EmbeddedConfig{Dir: dir, Port: 8123})
	require.NoError(t, err)
	dsn, err := Attach(dir, 8123)
	require.NoError(t, err)
	require.Equal(t, "http://kvwhatif:"+kept.writer+"@127.0.0.1:8123/kvwhatif", dsn)
	_, err = Attach(dir, 0)
	require.Error(t, err)
}
