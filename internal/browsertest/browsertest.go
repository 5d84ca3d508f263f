package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	js "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is for how long one test may use its browser: one that hangs must not
// hang CI.
const patience = 2 * time.Minute

// Browser is a headless Chromium with one page.
type Browser struct {
	Context context.Context
	mu      sync.Mutex
	said    []string
	own     []string // beginnings of addresses that may be asked for
	axe     string
}

// Open starts one. Where there is no Chromium, or no axe-core, the test is skipped
// on a laptop and fails in CI. own are the beginnings of the addresses that its
// pages may ask for, beside data: ones.
func Open(t *testing.T, own ...string) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		missing(t, "chromium is not on PATH: run deploy/install-chromium.sh")
	}
	axe, err := os.ReadFile(axePath())
	if err != nil {
		missing(t, "axe-core is not there: run deploy/install-axe.sh")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocated, stopAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, stop := chromedp.NewContext(allocated)
	t.Cleanup(func() { stop(); stopAllocator() })
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	b := &Browser{Context: ctx, own: append(own, "data:"), axe: string(axe)}
	require.NoError(t, chromedp.Do(ctx)) // starts it
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	return b
}

func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// axePath is where npm puts axe-core: beside this file.
func axePath() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "axe", "node_modules", "axe-core", "axe.min.js")
}

func (b *Browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *js.EventConsoleAPICalled:
		b.said = append(b.said, "console: "+string(e.Type))
	case *js.EventExceptionThrown:
		b.said = append(b.said, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		b.said = append(b.said, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		for _, beginning := range b.own {
			if strings.HasPrefix(e.Request.URL, beginning) {
				return
			}
		}
		b.said = append(b.said, "asked for "+e.Request.URL)
	}
}

// Said gives, and forgets, console messages, uncaught errors, and requests beyond
// what the pages may ask for.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

// View is how a page is looked at.
type View struct {
	Width  int64 // CSS pixels
	Scheme string
}

// Show opens a page, with all of its details open.
func (b *Browser) Show(t *testing.T, url string, v View) {
	t.Helper()
	_, err := chromedp.Call(b.Context, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.Scheme}},
	})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(b.Context, chromedp.EmulateViewport(v.Width, 900), chromedp.Navigate(url)))
	Ask[bool](t, b, `document.querySelectorAll('details').forEach(d => d.open = true), true`)
	require.NotEmpty(t, Ask[string](t, b, `document.querySelector('h1').textContent`))
}

// Ask evaluates an expression of JavaScript in the page.
func Ask[T any](t *testing.T, b *Browser, expression string) T {
	t.Helper()
	v, err := chromedp.Run(b.Context, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}

// Wait returns once an expression of JavaScript is true in the page. It asks by a
// promise of the page's own, for a page's policy refuses what evaluates text.
func (b *Browser) Wait(t *testing.T, condition string) {
	t.Helper()
	_, err := chromedp.Run(b.Context, chromedp.Evaluate[bool](`new Promise((done, fail) => {
 const end = Date.now() + 30000;
 (function look() { if (`+condition+`) done(true); else if (Date.now() > end) fail(new Error('it never was')); else setTimeout(look, 20) })() })`, chromedp.EvalAwaitPromise))
	require.NoError(t, err, condition)
}

// Judge asks the page that is shown for everything that a reader would complain
// of.
func (b *Browser) Judge(t *testing.T) {
	t.Helper()
	for name, question := range map[string]string{
		"beyond the window": overflowing, "too little contrast": faint, "cut off in a plot": clipped, "labels on one another": collided,
	} {
		assert.Empty(t, Ask[[]string](t, b, question), name)
	}
}

// Axe asks axe-core for what keeps people out of the page that is shown.
func (b *Browser) Axe(t *testing.T) {
	t.Helper()
	assert.Empty(t, b.violations(t), "axe-core")
}

// violations are what axe-core finds: by rule, the first place of each.
func (b *Browser) violations(t *testing.T) map[string]string {
	t.Helper()
	Ask[bool](t, b, b.axe+";\ntrue")
	found, err := chromedp.Run(b.Context, chromedp.Evaluate[map[string]string](`axe.run(document).then(r =>
 Object.fromEntries(r.violations.map(v => [v.id, v.help + ' (' + v.nodes.length + ') ' + v.nodes[0].html.slice(0, 200)])))`, chromedp.EvalAwaitPromise))
	require.NoError(t, err)
	return found
}

// Picture keeps a picture of the whole page in the folder that the environment
// names in SHOTS, if it does.
func (b *Browser) Picture(t *testing.T, name string) {
	t.Helper()
	folder := os.Getenv("SHOTS")
	if folder == "" {
		return
	}
	picture, err := chromedp.Run(b.Context, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600))
}

// PDF prints the page that is shown on A4, and keeps it as Picture does.
func (b *Browser) PDF(t *testing.T, name string) []byte {
	t.Helper()
	pdf, err := chromedp.Run(b.Context, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
	require.NoError(t, err)
	require.Equal(t, "%PDF", string(pdf[:4]))
	if folder := os.Getenv("SHOTS"); folder != "" {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name+".pdf"), pdf, 0o600))
	}
	return pdf
}
