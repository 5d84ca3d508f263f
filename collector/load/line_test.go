package load

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestLine(t *testing.T) {
	start := int64(1796101720_250000000)
	parts := []*schema.Part{contract(1, 0), engine(1, 0), transfer(1, 0, 0), leg(1, 0), {Kind: schema.KindContract}, {Kind: 9}}
	hurt := contract(1, 0)
	hurt.Decision.Candidates[1].TTFT, hurt.Decision.Worker = 0.1, "w\x1b[31m"
	var b strings.Builder
	for _, p := range append(parts, hurt) {
		p.StartNanos = start
		b.WriteString(Line(p) + "\n")
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/lines.txt", []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/lines.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())
}
