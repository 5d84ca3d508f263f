package serve

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

func TestTheNewestDocument(t *testing.T) {
	w := newWorld(t, nil)
	require.ErrorIs(t, w.server.Poll(t.Context()), publish.ErrNotFound)
	require.Error(t, w.server.Ready(t.Context()))
	r := w.ask("GET", "/v1/coefficients", "")
	assert.Equal(t, http.StatusServiceUnavailable, r.Code)
	assert.Equal(t, "5", r.Header().Get("Retry-After"))
	assert.Contains(t, said(t, r), "run kvwhatif calibrate")

	p := w.publish("first")
	require.NoError(t, w.server.Ready(t.Context()))
	r = w.ask("GET", "/v1/coefficients", "")
	require.Equal(t, http.StatusOK, r.Code)
	assert.Equal(t, p.Signed.Payload, r.Body.Bytes(), "byte for byte")
	assert.Equal(t, "application/json", r.Header().Get("Content-Type"))
	assert.Equal(t, "no-cache", r.Header().Get("Cache-Control"))
	opened, err := coefficients.Open(schema.SignedDocument{Payload: r.Body.Bytes(), Signature: r.Header().Get(coefficients.SignatureHeader)}, testPublic)
	require.NoError(t, err)
	assert.Equal(t, p.Document, opened)
	assert.Equal(t, tag(p), r.Header().Get("ETag"))

	head := w.ask("HEAD", "/v1/coefficients", "")
	assert.Equal(t, http.StatusOK, head.Code)
	assert.Zero(t, head.Body.Len())
	assert.Equal(t, r.Header().Get("Content-Length"), head.Header().Get("Content-Length"))
	for match, want := range map[string]int{
		tag(p): 304, "W/" + tag(p): 304, `"other", ` + tag(p): 304, "*": 304, `"other"`: 200, p.Digest: 200,
	} {
		r = w.ask("GET", "/v1/coefficients", "", "If-None-Match", match)
		assert.Equal(t, want, r.Code, match)
		assert.Equal(t, tag(p), r.Header().Get("ETag"))
		assert.Equal(t, want == 304, r.Body.Len() == 0)
	}
}

func TestOtherPaths(t *testing.T) {
	w := newWorld(t, nil)
	first := w.publish("first")
	second := w.publish("second")

	r := w.ask("GET", "/v1/coefficients/1", "")
	assert.Equal(t, first.Signed.Payload, r.Body.Bytes())
	assert.Equal(t, first.Signed.Signature, r.Header().Get(coefficients.SignatureHeader))
	assert.Contains(t, r.Header().Get("Cache-Control"), "immutable")
	assert.Equal(t, 304, w.ask("GET", "/v1/coefficients/1", "", "If-None-Match", tag(first)).Code)

	var history []publish.Entry
	r = w.ask("GET", "/v1/history", "")
	require.NoError(t, json.Unmarshal(r.Body.Bytes(), &history))
	require.Len(t, history, 2)
	assert.Equal(t, second.Digest, history[0].Digest)
	r = w.ask("GET", "/v1/history?limit=1", "")
	require.NoError(t, json.Unmarshal(r.Body.Bytes(), &history))
	assert.Len(t, history, 1)

	keys, err := coefficients.ParsePublicKeys(w.ask("GET", "/v1/keys", "").Body.Bytes())
	require.NoError(t, err)
	assert.Equal(t, []ed25519.PublicKey{testPublic}, keys)

	for _, tc := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/v1/coefficients/9", 404, "/v1/history"},
		{"GET", "/v1/coefficients/newest", 400, "give a number"},
		{"GET", "/v1/coefficients/0", 400, "give a number"},
		{"GET", "/v1/history?limit=0", 400, "1 to 1000"},
		{"GET", "/v1/history?limit=many", 400, "1 to 1000"},
		{"POST", "/v1/coefficients", 405, "GET, HEAD"},
		{"DELETE", "/v1/status", 405, "POST"},
		{"GET", "/", 404, "/v1/coefficients"},
	} {
		r := w.ask(tc.method, tc.path, "")
		assert.Equal(t, tc.code, r.Code, tc.path)
		assert.Contains(t, said(t, r), tc.says, tc.path)
		assert.Equal(t, "no-store", r.Header().Get("Cache-Control"))
	}
}

func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxWaiters = 2 })
		began := time.Now()
		empty := w.later(t.Context(), "/v1/coefficients", "Prefer", "wait=30")
		time.Sleep(7 * time.Second)
		first := w.publish("first")
		assert.Equal(t, first.Signed.Payload, (<-empty).Body.Bytes(), "the first document is waited for")
		assert.Equal(t, 7*time.Second, time.Since(began))

		assert.Equal(t, 200, w.ask("GET", "/v1/coefficients", "", "Prefer", "wait=30").Code, "who has none does not wait")
		assert.Equal(t, 304, w.ask("GET", "/v1/coefficients", "", "If-None-Match", tag(first)).Code, "nor who does not ask to")
		assert.Equal(t, 7*time.Second, time.Since(began))

		r := w.ask("GET", "/v1/coefficients", "", "If-None-Match", tag(first), "Prefer", "respond-async, wait=30")
		assert.Equal(t, 304, r.Code)
		assert.Equal(t, "wait=30", r.Header().Get("Preference-Applied"))
		assert.Equal(t, 37*time.Second, time.Since(began))
		r = w.ask("GET", "/v1/coefficients", "", "If-None-Match", tag(first), "Prefer", "wait=600")
		assert.Equal(t, "wait=60", r.Header().Get("Preference-Applied"))
		assert.Equal(t, 97*time.Second, time.Since(began))

		one := w.later(t.Context(), "/v1/coefficients", "If-None-Match", tag(first), "Prefer", "wait=30")
		gone, cancel := context.WithCancel(t.Context())
		two := w.later(gone, "/v1/coefficients", "If-None-Match", tag(first), "Prefer", "wait=30")
		synctest.Wait()
		r = w.ask("GET", "/v1/coefficients", "", "If-None-Match", tag(first), "Prefer", "wait=30")
		assert.Equal(t, 304, r.Code, "no room: answered at once")
		assert.Empty(t, r.Header().Get("Preference-Applied"))
		assert.Equal(t, http.StatusServiceUnavailable, w.ask("GET", "/v1/events", "").Code)
		cancel()
		<-two
		three := w.later(t.Context(), "/v1/coefficients", "If-None-Match", tag(first), "Prefer", "wait=30")
		synctest.Wait()
		second := w.publish("second")
		assert.Equal(t, second.Signed.Payload, (<-one).Body.Bytes())
		assert.Equal(t, second.Signed.Payload, (<-three).Body.Bytes())
		assert.Equal(t, 97*time.Second, time.Since(began))

		last := w.later(t.Context(), "/v1/coefficients", "If-None-Match", tag(second), "Prefer", "wait=30")
		synctest.Wait()
		w.server.Close()
		assert.Equal(t, 304, (<-last).Code)
		assert.Equal(t, 304, w.ask("GET", "/v1/coefficients", "", "If-None-Match", tag(second), "Prefer", "wait=30").Code)
		assert.Equal(t, 97*time.Second, time.Since(began))
	})
}

func TestWaitOf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "wait=30": 30 * time.Second, "Wait=5": 5 * time.Second, "respond-async, wait=10": 10 * time.Second,
		`wait="7"; x=1`: 7 * time.Second, "wait": 0, "wait=-1": 0, "wait=1e3": 0, "wait=99999999999": 0, "waiting=5": 0,
	} {
		assert.Equal(t, want, waitOf(http.Header{"Prefer": {text}}), text)
	}
}

// locked is a recorder that is read while it is written.
type locked struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ResponseRecorder.Write(b)
}

func (l *locked) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Body.String()
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		first := w.publish("first")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := &locked{ResponseRecorder: httptest.NewRecorder()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.handler.ServeHTTP(stream, httptest.NewRequestWithContext(ctx, "GET", "/v1/events", nil))
		}()
		synctest.Wait()
		line := func(p publish.Published, revision string) string {
			return "event: coefficients\nid: " + revision + "\ndata: {\"revision\":" + revision + ",\"digest\":\"" + p.Digest + "\"}\n\n"
		}
		want := "retry: 5000\n\n" + line(first, "1")
		assert.Equal(t, want, stream.text())
		assert.Equal(t, "text/event-stream", stream.Header().Get("Content-Type"))
		second := w.publish("second")
		synctest.Wait()
		want += line(second, "2")
		assert.Equal(t, want, stream.text())
		require.NoError(t, w.server.Poll(t.Context()))
		time.Sleep(keepAlive)
		synctest.Wait()
		want += ": still here\n\n"
		assert.Equal(t, want, stream.text(), "nothing new, but a sign of life")
		cancel()
		<-done

		again := w.later(t.Context(), "/v1/events", "Last-Event-ID", "2")
		synctest.Wait()
		w.server.Close()
		assert.Equal(t, "retry: 5000\n\n", (<-again).Body.String(), "what was told is not told again")
	})
}

func TestStatus(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	kept := &fakeStatuses{rows: []schema.AppliedStatus{{Instance: "old", Revision: 1, Applied: true, AtNanos: now.Add(-time.Hour).UnixNano()}}}
	w := newWorld(t, func(c *Config) { c.Status, c.Now = kept, func() time.Time { return now } })
	w.publish("first")
	post := func(s schema.AppliedStatus) *httptest.ResponseRecorder {
		body, err := json.Marshal(s)
		require.NoError(t, err)
		return w.ask("POST", "/v1/status", string(body), "Content-Type", "application/json")
	}
	at := now.UnixNano()
	assert.Equal(t, http.StatusAccepted, post(schema.AppliedStatus{Instance: "a", Revision: 2, Reason: "too new", AtNanos: at}).Code)
	assert.Equal(t, http.StatusAccepted, post(schema.AppliedStatus{Instance: "a", Revision: 1, Applied: true, AtNanos: at - 5}).Code, "late")
	assert.Equal(t, http.StatusAccepted, post(schema.AppliedStatus{Revision: 1, Applied: true}).Code, "a client without a name")
	for _, tc := range []struct {
		body string
		code int
		says string
	}{
		{"{", 400, "JSON object"}, {`{"instance":5}`, 400, "JSON object"},
		{`{"instance":"` + strings.Repeat("x", maxStatusBody) + `"}`, 413, "at most"},
		{`{"instance":"` + strings.Repeat("x", maxInstance+1) + `","applied":true}`, 400, "at most"},
		{`{"instance":"a","revision":-1,"applied":true}`, 400, "negative"},
		{`{"instance":"a","revision":1}`, 400, "reason"},
		{`{"instance":"a","applied":true,"at_unix_nanos":1}`, 400, "set the clock"},
	} {
		r := w.ask("POST", "/v1/status", tc.body)
		assert.Equal(t, tc.code, r.Code, tc.says)
		assert.Contains(t, said(t, r), tc.says)
	}
	want := []schema.AppliedStatus{
		{Instance: "a", Revision: 2, Reason: "too new", AtNanos: at},
		kept.rows[0],
		{Instance: "unnamed at 192.0.2.1", Revision: 1, Applied: true, AtNanos: at},
	}
	var got []schema.AppliedStatus
	require.NoError(t, json.Unmarshal(w.ask("GET", "/v1/status", "").Body.Bytes(), &got))
	assert.Equal(t, want, got)
	counted := func() [2]float64 {
		return [2]float64{testutil.ToFloat64(w.server.metrics.applied), testutil.ToFloat64(w.server.metrics.refused)}
	}
	assert.Equal(t, [2]float64{2, 1}, counted())

	kept.away = true
	require.ErrorContains(t, w.server.Poll(t.Context()), "connection refused")
	require.NoError(t, w.server.Ready(t.Context()), "documents are given out all the same")
	kept.away = false
	require.NoError(t, w.server.Poll(t.Context()))
	require.NoError(t, w.server.Poll(t.Context()))
	assert.Len(t, kept.rows, 4, "none lost, none twice")
	assert.Equal(t, 1, kept.puts, "in one write")

	now = now.Add(lastWord + time.Second)
	assert.Equal(t, [2]float64{}, counted(), "silent for a day")
	now = now.Add(statusesKept - lastWord)
	kept.rows = nil
	require.NoError(t, w.server.Poll(t.Context()))
	assert.Equal(t, "[]\n", w.ask("GET", "/v1/status", "").Body.String())
}

func TestAPageOfAnotherOriginMayNotPost(t *testing.T) {
	w := newWorld(t, nil)
	r := w.ask("POST", "/v1/status", `{"instance":"a","applied":true}`, "Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusForbidden, r.Code)
	assert.Contains(t, said(t, r), "origin")
	assert.Equal(t, "[]\n", w.ask("GET", "/v1/status", "").Body.String())
}

// Over a real connection, with a write timeout that every wait outlasts.
func TestOverTheNetwork(t *testing.T) {
	w := newWorld(t, nil)
	w.publish("first")
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.WriteTimeout = time.Nanosecond
	server.Start()
	defer server.Close()
	defer w.server.Close()
	resp, err := http.Get(server.URL + "/v1/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	next := func() event {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e event
				require.NoError(t, json.Unmarshal([]byte(data), &e))
				return e
			}
		}
		require.NoError(t, lines.Err())
		require.Fail(t, "the stream ended")
		return event{}
	}
	for revision := int64(1); revision < 4; revision++ {
		assert.Equal(t, revision, next().Revision)
		held, _ := w.server.Held()
		request, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v1/coefficients", nil)
		require.NoError(t, err)
		request.Header.Set("If-None-Match", tag(held))
		request.Header.Set("Prefer", "wait=60")
		answers := make(chan int64)
		go func() {
			resp, err := http.DefaultClient.Do(request)
			if !assert.NoError(t, err) {
				close(answers)
				return
			}
			defer resp.Body.Close()
			var d schema.Document
			assert.NoError(t, json.NewDecoder(resp.Body).Decode(&d))
			answers <- d.Revision
		}()
		for len(w.server.waiters) < 2 && !t.Failed() { // the stream and the poll
			runtime.Gosched()
		}
		w.publish("next")
		assert.Equal(t, revision+1, <-answers)
	}
}

func TestStatusesAreBounded(t *testing.T) {
	s := newStatuses(&fakeStatuses{})
	for range maxPending {
		require.NoError(t, s.add(schema.AppliedStatus{Instance: "a"}))
	}
	require.ErrorIs(t, s.add(schema.AppliedStatus{Instance: "a"}), errTooMany)
	require.NoError(t, s.flush(t.Context()))
	require.NoError(t, s.add(schema.AppliedStatus{Instance: "a"}))
}
