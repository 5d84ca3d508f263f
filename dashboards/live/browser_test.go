package live

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
	"github.com/kvwhatif/kvwhatif/dashboards/report"
	"github.com/kvwhatif/kvwhatif/internal/browsertest"
)

func TestInABrowser(t *testing.T) {
	sources := map[string]*fake{"full": full(t), "empty": {}, "old": {held: query.Holdings{Newest: start.Add(-5 * time.Hour), Legs: 3, Documents: 1, Links: []string{"busy", "calm"}}}}
	routes := map[string]struct {
		source, target string
		widths         []int64
	}{
		"page": {"full", "/", []int64{360, 768, 1280}}, "request": {"full", "/request/000102030405060708090a0b0c0d0e0f", []int64{360, 768, 1280}},
		"empty": {"empty", "/", []int64{360, 1280}}, "old": {"old", "/?range=15m&link=busy", []int64{360}},
		"problem": {"full", "/?range=no", []int64{360}}, "norequest": {"empty", "/request/none", []int64{360}},
	}
	servers := map[string]string{}
	own := []string{}
	for name, f := range sources {
		s := httptest.NewServer(handler(f))
		t.Cleanup(s.Close)
		servers[name] = s.URL
		own = append(own, s.URL+"/")
	}
	b := browsertest.Open(t, own...)
	for name, route := range routes {
		for _, width := range route.widths {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s_%d_%s", name, width, scheme), func(t *testing.T) {
					b.Show(t, servers[route.source]+route.target, browsertest.View{Width: width, Scheme: scheme})
					b.Judge(t)
					if width == 360 {
						b.Axe(t)
					}
					b.Picture(t, fmt.Sprintf("live_%s_%d_%s", name, width, scheme))
				})
			}
		}
	}
	for _, said := range b.Said() {
		require.Contains(t, said, "the server responded with a status of 40", "of the pages of refusals, and nothing else")
	}
	b.Show(t, servers["full"]+"/request/000102030405060708090a0b0c0d0e0f", browsertest.View{Width: 1280, Scheme: "light"})
	require.NotEmpty(t, b.PDF(t, "live_request"))
}

// open serves f on a clock that a test moves, at a pace that a test can wait for.
func open(t *testing.T, f *fake) (url string, later func(), dead *atomic.Bool) {
	t.Helper()
	var now atomic.Int64
	now.Store(start.Unix())
	h := New(Config{Source: f, Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	dead = &atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dead.Load() {
			panic(http.ErrAbortHandler)
		}
		h.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s.URL, func() { now.Add(int64(every / time.Second)) }, dead
}

// refresh has the page ask again at once, as it does when it comes into view.
const refresh = `document.dispatchEvent(new Event('visibilitychange')), true`

// TestStaysUpToDate holds that the page shows what changed, says so where a
// verdict did, keeps what was open and where the reader was, and says that it is
// old once nobody answers.
func TestStaysUpToDate(t *testing.T) {
	f := full(t)
	url, later, dead := open(t, f)
	b := browsertest.Open(t, url+"/")
	require.NoError(t, chromedp.Do(b.Context, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url+"/")))
	ask := func(expression string) string { return browsertest.Ask[string](t, b, expression) }
	require.NotContains(t, ask(`document.querySelector('main').textContent`), "MARKED")
	ask(`document.querySelector('details').open = true, document.querySelector('details summary').focus(), ''`)

	f.set(func(f *fake) {
		v := append([]report.Verdict{}, f.data.Verdicts...)
		v[0].State, v[0].Own, v[0].Others, v[0].Net, v[0].Action = report.Helping, v[1].Own, nil, nil, "MARKED"
		f.data.Verdicts = v
	})
	later()
	browsertest.Ask[bool](t, b, refresh)
	b.Wait(t, `document.querySelector('main').textContent.includes('MARKED')`)
	require.Contains(t, ask(`document.getElementById('news').textContent`), "The verdict changed: link busy helping")
	require.Contains(t, ask(`document.getElementById('when').textContent`), "09:00:15")
	require.Equal(t, "1 SUMMARY", ask(`document.querySelectorAll('details[open]').length + ' ' + document.activeElement.tagName`))

	dead.Store(true)
	browsertest.Ask[bool](t, b, refresh)
	b.Wait(t, `!document.getElementById('stale').hidden`)
	require.Contains(t, ask(`document.getElementById('stale').textContent`), "not up to date any more")
	dead.Store(false)
	browsertest.Ask[bool](t, b, refresh)
	b.Wait(t, `document.getElementById('stale').hidden`)

	ask(`document.getElementById('pause').click(), ''`)
	asked := len(f.asked)
	later()
	browsertest.Ask[bool](t, b, refresh)
	require.Equal(t, "Go on updating|Updates are paused.", ask(`document.getElementById('pause').textContent + '|' + document.getElementById('age').textContent`))
	require.Len(t, f.asked, asked, "a page that is paused asked")
	for _, said := range b.Said() {
		require.Contains(t, said, "ERR_EMPTY_RESPONSE", "of the server that was away, and nothing else")
	}
}

// TestByKeyboard goes through the page by Tab alone: every control is reached, in
// the order in which it stands, and its focus is seen.
func TestByKeyboard(t *testing.T) {
	url, _, _ := open(t, full(t))
	b := browsertest.Open(t, url+"/")
	require.NoError(t, chromedp.Do(b.Context, chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url+"/")))
	controls := browsertest.Ask[int](t, b, `document.querySelectorAll('a[href],button,select,summary').length`)
	var reached []string
	for range controls {
		require.NoError(t, chromedp.Do(b.Context, chromedp.KeyEvent("\t")))
		reached = append(reached, browsertest.Ask[string](t, b, `(() => { const e = document.activeElement, s = getComputedStyle(e);
 const all = [...document.querySelectorAll('a[href],button,select,summary')];
 return all.indexOf(e) + ' ' + (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 ? 'seen' : 'unseen: ' + e.outerHTML.slice(0, 80)) })()`))
	}
	for i, r := range reached {
		require.Equal(t, fmt.Sprintf("%d seen", i), r)
	}
	require.NoError(t, chromedp.Do(b.Context, chromedp.Navigate(url+"/"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r")))
	require.True(t, strings.HasSuffix(browsertest.Ask[string](t, b, `location.href`), "#verdict"), "the skip link")
}
