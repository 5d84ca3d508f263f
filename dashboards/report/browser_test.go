package report

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// browser starts headless Chromium. On a laptop without it the test is skipped;
// in CI its absence fails.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not on PATH: install it (apt-get install chromium)")
		}
		t.Skip("chromium is not on PATH")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocated, stopAllocator := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, stop := chromedp.NewContext(allocated)
	t.Cleanup(func() { stop(); stopAllocator() })
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // a hung browser must not hang CI
	t.Cleanup(cancel)
	return ctx
}

// complaints are console messages, uncaught errors, and requests beyond the page.
type complaints struct {
	sync.Mutex
	all []string
}

func (c *complaints) listen(event any) {
	c.Lock()
	defer c.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		c.all = append(c.all, "console: "+string(e.Type))
	case *runtime.EventExceptionThrown:
		c.all = append(c.all, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		c.all = append(c.all, "log: "+e.Entry.Text)
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; len(u) < 5 || (u[:5] != "file:" && u[:5] != "data:") {
			c.all = append(c.all, "asked for "+u)
		}
	}
}

// overflowing lists elements that reach beyond the window.
const overflowing = `(() => {
 const wide = document.documentElement.clientWidth, out = [];
 if (document.documentElement.scrollWidth > wide) out.push('page ' + document.documentElement.scrollWidth);
 for (const e of document.querySelectorAll('body *')) {
  if (e.closest('.skip,.vh,svg,thead')) continue;
  const r = e.getBoundingClientRect();
  if (r.width > 0 && (r.right > wide + 1 || r.left < -1)) out.push(e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40));
 }
 return out})()`

// faint lists words whose contrast with what is behind them is below WCAG's 4.5.
const faint = `(() => {
 const rgb = s => (s.match(/[\d.]+/g) || []).map(Number);
 const lum = c => { const f = c.slice(0, 3).map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2] };
 const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length == 3 || c[3] > 0) return c } return [255, 255, 255] };
 const out = [];
 for (const e of document.querySelectorAll('body *')) {
  if (![...e.childNodes].some(n => n.nodeType == 3 && n.textContent.trim())) continue;
  if (e.closest('defs,title,desc')) continue;
  const style = getComputedStyle(e), ink = rgb(e.closest('svg') ? style.fill : style.color);
  const a = lum(ink), b = lum(behind(e)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) out.push(ratio.toFixed(2) + ' ' + e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.slice(0, 40));
 }
 return out})()`

// clipped lists words of plots that reach beyond their plot's sides.
const clipped = `[...document.querySelectorAll('svg text')].filter(t => {
 const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
 return a.width > 0 && (a.left < b.left - 1 || a.right > b.right + 1)}).map(t => t.textContent)`

// collided lists neighbouring words of an axis that lie on one another.
const collided = `[...document.querySelectorAll('svg.axis')].flatMap(s => {
 const r = [...s.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent]);
 return r.flatMap(([a, x], i) => r.slice(i + 1).filter(([b]) => a.width && b.width && a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom).map(([, y]) => x + ' / ' + y))})`

func TestInABrowser(t *testing.T) {
	ctx := browser(t)
	said := &complaints{}
	require.NoError(t, chromedp.Do(ctx)) // starts it
	require.NoError(t, chromedp.Listen(ctx, said.listen))
	shots := os.Getenv("REPORT_SHOTS") // a folder to keep the pictures in
	if shots == "" {
		shots = t.TempDir()
	}
	for name, d := range pages() {
		file := filepath.Join(t.TempDir(), name+".html")
		require.NoError(t, os.WriteFile(file, []byte(render(t, d)), 0o600))
		for _, v := range viewsOf(name) {
			t.Run(fmt.Sprintf("%s_%d_%s", name, v.width, v.scheme), func(t *testing.T) {
				show(t, ctx, "file://"+file, v)
				judgePage(t, ctx)
				picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(shots, fmt.Sprintf("%s_%d_%s.png", name, v.width, v.scheme)), picture, 0o600))
			})
		}
	}
	said.Lock()
	defer said.Unlock()
	require.Empty(t, said.all)
}

// view is how a page is looked at.
type view struct {
	width  int64 // CSS pixels
	scheme string
}

// viewsOf are all views for the page that has everything, and the two that
// differ most for the others.
func viewsOf(name string) []view {
	if name != "sample" {
		return []view{{375, "light"}, {1440, "dark"}}
	}
	return []view{{375, "light"}, {375, "dark"}, {768, "light"}, {768, "dark"}, {1440, "light"}, {1440, "dark"}}
}

func show(t *testing.T, ctx context.Context, url string, v view) {
	t.Helper()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
	})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(v.width, 900), chromedp.Navigate(url)))
	_, err = chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelectorAll('details').forEach(d => d.open = true), true`))
	require.NoError(t, err)
	heading, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("h1")))
	require.NoError(t, err)
	require.NotEmpty(t, heading)
}

// judgePage asks the page that is shown for everything that a reader would
// complain of.
func judgePage(t *testing.T, ctx context.Context) {
	t.Helper()
	for name, question := range map[string]string{
		"beyond the window": overflowing, "too little contrast": faint, "cut off in a plot": clipped, "labels on one another": collided,
	} {
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](question))
		require.NoError(t, err, name)
		assert.Empty(t, found, name)
	}
}

// TestPrints makes a PDF, so that what only print shows is at least drawn.
func TestPrints(t *testing.T) {
	ctx := browser(t)
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, []byte(render(t, sample())), 0o600))
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("file://"+file)))
	pdf, err := chromedp.Run(ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
	require.NoError(t, err)
	require.Equal(t, "%PDF", string(pdf[:4]))
	if shots := os.Getenv("REPORT_SHOTS"); shots != "" {
		require.NoError(t, os.WriteFile(filepath.Join(shots, "report.pdf"), pdf, 0o600))
	}
}
