package serve

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

// stub is a store that says what it is told to.
type stub struct {
	publish.Memory
	mu   sync.Mutex
	rows []publish.Row
	err  error
}

func (s *stub) set(err error, rows ...publish.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows, s.err = rows, err
}

func (s *stub) Newest(context.Context, int) ([]publish.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows, s.err
}

func rowOf(t testing.TB, revision int64, provenance string, key ed25519.PrivateKey) publish.Row {
	now := time.Now()
	d := laws()
	d.Version, d.Revision, d.Provenance = schema.DocumentVersion, revision, provenance
	d.Created, d.RefreshAfter, d.Expires = now.UnixNano(), now.Add(time.Hour).UnixNano(), now.Add(24*time.Hour).UnixNano()
	signed, err := coefficients.Seal(d, key)
	require.NoError(t, err)
	return publish.Row{Revision: revision, Payload: string(signed.Payload), Signature: signed.Signature}
}

func TestNothingBadIsGivenOut(t *testing.T) {
	store := &stub{}
	w := newWorld(t, func(c *Config) { c.Store = store })
	good := rowOf(t, 5, "good", testKey)
	store.set(nil, good)
	require.NoError(t, w.server.Poll(t.Context()))
	misfiled := rowOf(t, 9, "x", testKey)
	misfiled.Revision = 8
	bad := rowOf(t, 9, "x", testKey)
	bad.Payload = bad.Payload[:len(bad.Payload)-1] + " "
	for _, tc := range []struct {
		name string
		err  error
		rows []publish.Row
		says string
	}{
		{"signed by a stranger", nil, []publish.Row{rowOf(t, 6, "x", keyOf("stranger"))}, "key that calibrate signs with"},
		{"changed", nil, []publish.Row{bad}, "does not verify"},
		{"misfiled", nil, []publish.Row{misfiled}, "say that they are revision 9"},
		{"older", nil, []publish.Row{rowOf(t, 4, "x", testKey)}, "restored from a backup"},
		{"the same revision with other content", nil, []publish.Row{rowOf(t, 5, "x", testKey)}, "restored from a backup"},
		{"none", nil, nil, "was the table dropped"},
		{"away", errors.New("connection refused"), nil, "connection refused"},
	} {
		store.set(tc.err, tc.rows...)
		assert.ErrorContains(t, w.server.Poll(t.Context()), tc.says, tc.name)
		assert.Equal(t, good.Payload, w.ask("GET", "/v1/coefficients", "").Body.String(), tc.name)
		var h health
		r := w.ask("GET", "/healthz", "")
		require.NoError(t, json.Unmarshal(r.Body.Bytes(), &h))
		assert.Equal(t, 200, r.Code)
		assert.Equal(t, "degraded", h.Status)
		assert.Contains(t, h.Error, tc.says)
		assert.Equal(t, int64(5), h.Revision)
	}
	store.set(nil, good)
	require.NoError(t, w.server.Poll(t.Context()))
	assert.Contains(t, w.ask("GET", "/healthz", "").Body.String(), `"status":"ok"`)
	assert.InDelta(t, 7, testutil.ToFloat64(w.server.metrics.errors.WithLabelValues("poll")), 0)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(w.server))
	families, err := registry.Gather()
	require.NoError(t, err)
	assert.Len(t, families, 6)

	_, err = New(Config{Store: store})
	require.ErrorContains(t, err, "public key")
	_, err = New(Config{})
	require.ErrorContains(t, err, "store")
}

func TestRunSaysEachErrorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stub{}
		var said []string
		kept := &fakeStatuses{}
		w := newWorld(t, func(c *Config) {
			c.Store, c.Status, c.OnError = store, kept, func(err error) { said = append(said, err.Error()) }
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.server.Run(ctx) }()
		time.Sleep(time.Minute)
		store.set(errors.New("connection refused"))
		time.Sleep(time.Minute)
		store.set(nil, rowOf(t, 1, "x", testKey))
		time.Sleep(time.Minute)
		held, ok := w.server.Held()
		assert.True(t, ok)
		assert.Equal(t, int64(1), held.Document.Revision)
		store.set(errors.New("connection refused"))
		time.Sleep(time.Minute)
		waiting := w.later(t.Context(), "/v1/coefficients", "If-None-Match", tag(held), "Prefer", "wait=60")
		synctest.Wait()
		assert.Equal(t, http.StatusAccepted, w.ask("POST", "/v1/status", `{"instance":"a","applied":true}`).Code)
		cancel()
		require.NoError(t, <-ended)
		assert.Equal(t, 304, (<-waiting).Code)
		assert.Len(t, kept.rows, 1, "statuses are written at the end")
		require.Len(t, said, 3)
		assert.Contains(t, said[0], "run kvwhatif calibrate")
		assert.Contains(t, said[1], "connection refused")
		assert.Equal(t, said[1], said[2], "again after it was well")
	})
}

// direct is a transport into a handler, without a network, so that time can be
// faked.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	out := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.ServeHTTP(out, r)
	}()
	<-done
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return out.Result(), nil
}

// The client of a coordinator follows the server: each document at the moment that
// it is there, and it says so.
func TestTheClientFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &fakeStatuses{}
		w := newWorld(t, func(c *Config) { c.Status = kept })
		w.publish("first")
		c, err := client.New(client.Config{
			URL: "http://serve", PublicKeys: []ed25519.PublicKey{testPublic}, Instance: "router-1",
			Fallback:   client.Fallback{Prefill: cost.Prefill{C1: 1}, Transfer: cost.Transfer{Link: cost.Link{B: 1}}},
			HTTPClient: &http.Client{Transport: direct{w.handler}},
			OnError:    func(err error) { t.Error(err) },
		})
		require.NoError(t, err)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		c.Start(ctx)
		synctest.Wait()
		assert.Equal(t, int64(1), c.Snapshot().Revision)
		time.Sleep(3*time.Minute + 11*time.Second) // long polls come and go
		published := time.Now()
		second := w.publish("second")
		synctest.Wait()
		assert.Equal(t, second.Digest, c.Snapshot().Digest)
		assert.Equal(t, published, time.Now(), "without a wait")
		cancel()
		<-c.Done()
		require.NoError(t, w.server.Poll(t.Context()))
		assert.Equal(t, []int64{1, 2}, []int64{kept.rows[0].Revision, kept.rows[1].Revision})
		assert.True(t, slices.IndexFunc(kept.rows, func(s schema.AppliedStatus) bool { return !s.Applied || s.Instance != "router-1" }) < 0)
	})
}

// heldStatuses keeps a writer until it is let go.
type heldStatuses struct{ entered, leave chan struct{} }

func (s heldStatuses) Put(context.Context, []schema.AppliedStatus) error {
	s.entered <- struct{}{}
	<-s.leave
	return nil
}

func (heldStatuses) Last(context.Context, time.Time) ([]schema.AppliedStatus, error) {
	return nil, nil
}

// Two polls at once once wrote a status twice and cut the list of them short.
func TestPollsTakeTurns(t *testing.T) {
	statuses := heldStatuses{entered: make(chan struct{}), leave: make(chan struct{})}
	w := newWorld(t, func(c *Config) { c.Status = statuses })
	require.NoError(t, w.server.statuses.add(schema.AppliedStatus{Instance: "a", Revision: 1, AtNanos: 1}))
	done := make(chan error)
	go func() { done <- w.server.Poll(t.Context()) }()
	<-statuses.entered
	require.False(t, w.server.polling.TryLock(), "another poll could begin while one writes")
	close(statuses.leave)
	require.ErrorIs(t, <-done, publish.ErrNotFound)
	require.True(t, w.server.polling.TryLock())
}
