package serve

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var (
	testKey    = keyOf("publisher")
	testPublic = testKey.Public().(ed25519.PublicKey)
)

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// laws has a link of 10 GB/s that two tiers are fetched over.
func laws() schema.Document {
	box := schema.Quality{N: 1000, Form: "test", MaxTokens: 100_000, MaxBytes: 8 << 30, MaxConcurrent: 32}
	few := box
	few.N = 60
	return schema.Document{
		Provenance: "test",
		Prefill:    []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: 2e-5}, Quality: box}},
		Transfer: []schema.TransferFit{
			{Tier: "cpu", Link: "spine", Law: cost.Transfer{Link: cost.Link{B: 10e9}}, Quality: box},
			{Tier: "disk", Link: "spine", Law: cost.Transfer{Link: cost.Link{B: 3e9}}, Quality: few},
		},
	}
}

// world is a server over a store in memory.
type world struct {
	t         testing.TB
	store     *publish.Memory
	publisher *publish.Publisher
	server    *Server
	handler   http.Handler
}

func newWorld(t testing.TB, change func(*Config)) *world {
	w := &world{t: t, store: &publish.Memory{}}
	w.publisher = publish.New(w.store, testKey, publish.Options{})
	cfg := Config{Store: w.store, Keys: []ed25519.PublicKey{testPublic}}
	if change != nil {
		change(&cfg)
	}
	if cfg.Demand != nil {
		cfg.Publisher = w.publisher
	}
	s, err := New(cfg)
	require.NoError(t, err)
	w.server, w.handler = s, s.Handler()
	return w
}

// publish publishes other laws than there were, and has the server take them up.
func (w *world) publish(provenance string) publish.Published {
	w.t.Helper()
	base, err := publish.Latest(w.t.Context(), w.store)
	if !errors.Is(err, publish.ErrNotFound) {
		require.NoError(w.t, err)
	}
	d := laws()
	d.Provenance = provenance
	out, err := w.publisher.Publish(w.t.Context(), publish.Draft{Document: d, Base: base.Document.Revision, Note: "fit"})
	require.NoError(w.t, err)
	require.NoError(w.t, w.server.Poll(w.t.Context()))
	return out
}

// ask answers at once or, inside a bubble, when the handler does.
func (w *world) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return w.askContext(w.t.Context(), method, path, body, headers...)
}

func (w *world) askContext(ctx context.Context, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	return out
}

// asked is an answer that may come later.
func (w *world) later(ctx context.Context, path string, headers ...string) <-chan *httptest.ResponseRecorder {
	out := make(chan *httptest.ResponseRecorder, 1)
	go func() { out <- w.askContext(ctx, http.MethodGet, path, "", headers...) }()
	return out
}

func tag(p publish.Published) string { return `"` + p.Digest + `"` }

func said(t testing.TB, r *httptest.ResponseRecorder) string {
	var body struct {
		Error string `json:"error"`
	}
	require.NoError(t, json.Unmarshal(r.Body.Bytes(), &body), r.Body.String())
	return body.Error
}

// fakeStatuses is a StatusStore that can be away.
type fakeStatuses struct {
	mu   sync.Mutex
	away bool
	rows []schema.AppliedStatus
	puts int
}

func (f *fakeStatuses) Put(_ context.Context, said []schema.AppliedStatus) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errors.New("connection refused")
	}
	f.puts++
	f.rows = append(f.rows, said...)
	return nil
}

func (f *fakeStatuses) Last(_ context.Context, _ time.Time) ([]schema.AppliedStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]schema.AppliedStatus(nil), f.rows...), nil
}
