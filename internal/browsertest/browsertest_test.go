package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// bad has one of everything that a page must not have.
const bad = `<!DOCTYPE html><html><head><title></title></head><body style="margin:0"><h1>Bad</h1><img src="data:,"><div style="width:4000px">wide</div>
<p style="color:#aaa;background:#fff">faint words</p><script>console.log("x"); fetch("http://127.0.0.1:9/")</script></body></html>`

// TestFindsWhatIsWrong holds that the judges can find something.
func TestFindsWhatIsWrong(t *testing.T) {
	b := Open(t, "file:")
	file := filepath.Join(t.TempDir(), "bad.html")
	require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
	b.Show(t, "file://"+file, View{Width: 360, Scheme: "light"})
	require.NotEmpty(t, Ask[[]string](t, b, overflowing))
	require.NotEmpty(t, Ask[[]string](t, b, faint))
	found := b.violations(t)
	for _, rule := range []string{"image-alt", "html-has-lang", "document-title"} {
		require.Contains(t, found, rule)
	}
	said := b.Said()
	require.Contains(t, said, "console: log")
	require.Contains(t, said, "asked for http://127.0.0.1:9/")
}
