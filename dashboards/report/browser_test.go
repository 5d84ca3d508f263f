package report

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/browsertest"
)

func TestInABrowser(t *testing.T) {
	b := browsertest.Open(t, "file:")
	for name, d := range pages() {
		file := filepath.Join(t.TempDir(), name+".html")
		require.NoError(t, os.WriteFile(file, []byte(render(t, d)), 0o600))
		for i, v := range viewsOf(name) {
			t.Run(fmt.Sprintf("%s_%d_%s", name, v.Width, v.Scheme), func(t *testing.T) {
				b.Show(t, "file://"+file, v)
				b.Judge(t)
				if i == 0 { // what it looks at does not change with the width
					b.Axe(t)
				}
				b.Picture(t, fmt.Sprintf("%s_%d_%s", name, v.Width, v.Scheme))
			})
		}
	}
	require.Empty(t, b.Said())
}

// viewsOf are all views for the page that has everything, and the two that
// differ most for the others.
func viewsOf(name string) []browsertest.View {
	if name != "sample" {
		return []browsertest.View{{Width: 360, Scheme: "light"}, {Width: 1440, Scheme: "dark"}}
	}
	var all []browsertest.View
	for _, width := range []int64{360, 768, 1440} {
		all = append(all, browsertest.View{Width: width, Scheme: "light"}, browsertest.View{Width: width, Scheme: "dark"})
	}
	return all
}

// TestPrints makes a PDF, so that what only print shows is at least drawn.
func TestPrints(t *testing.T) {
	b := browsertest.Open(t, "file:")
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, []byte(render(t, sample())), 0o600))
	b.Show(t, "file://"+file, browsertest.View{Width: 1280, Scheme: "light"})
	require.NotEmpty(t, b.PDF(t, "report"))
}
