package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/gate"
	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// ask gives the body of an answer.
func ask(t *testing.T, method, addr, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestSpanAt(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	hour := func(h int) time.Time { return time.Date(2026, 1, 2, h, 0, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		span        Span
		from, until time.Time
	}{
		"since":           {Span{Since: 3 * time.Hour}, hour(9), hour(11)},
		"from":            {Span{From: hour(5), Since: time.Hour}, hour(5), hour(11)},
		"from and until":  {Span{From: hour(5), Until: hour(6)}, hour(5), hour(6)},
		"since and until": {Span{Until: hour(6), Since: 2 * time.Hour}, hour(4), hour(6)},
	} {
		from, until, err := c.span.at(now, time.Hour)
		require.NoError(t, err, name)
		require.Equal(t, c.from, from, name)
		require.Equal(t, c.until, until, name)
	}
	for _, empty := range []Span{{Since: time.Hour}, {From: hour(6), Until: hour(6)}} {
		_, _, err := empty.at(now, time.Hour)
		require.ErrorContains(t, err, "is empty: give a longer --since")
	}
}

func TestRepeatGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := DefaultSettings()
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var at []time.Duration
		err := Repeat(ctx, &s, "job", time.Hour, quiet(), func(context.Context) error {
			if at = append(at, time.Since(began)); len(at) == 3 {
				cancel()
			}
			return errors.New("not today")
		})
		require.NoError(t, err)
		require.Len(t, at, 3)
		require.Zero(t, at[0], "the first run is at once")
		for i := 1; i < len(at); i++ {
			require.InDelta(t, time.Hour, at[i]-at[i-1], float64(6*time.Minute))
		}
	})
}

func TestAttachedLeavesOtherServersAlone(t *testing.T) {
	s := DefaultSettings()
	s.Dir = t.TempDir()
	same, err := s.attached()
	require.NoError(t, err)
	require.Equal(t, &s, same, "nothing ever ran there")

	d, err := OpenDir(s.Dir)
	require.NoError(t, err)
	d.State.KafkaAddr = "127.0.0.1:9"
	require.NoError(t, d.Save())
	defer d.Close()
	full, err := s.attached()
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:9"}, full.Kafka.Brokers)
	require.Equal(t, d.State.ReplaySalt, full.Replay.Salt)
	require.Empty(t, full.ClickHouse.DSN)

	s.Kafka.Brokers = []string{"elsewhere:9092"}
	full, err = s.attached()
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere:9092"}, full.Kafka.Brokers)
	require.Empty(t, full.Replay.Salt, "the salt of this directory did not draw there")

	d.State.ClickHousePort = 8123
	require.NoError(t, d.Save())
	_, err = s.attached()
	require.ErrorContains(t, err, "no embedded ClickHouse was ever started")
}

func TestCalibratedErr(t *testing.T) {
	publish := gate.Verdict{Publish: true}
	for name, c := range map[string]struct {
		run  Calibrated
		fine bool
	}{
		"published":          {Calibrated{Published: true, Gate: publish}, true},
		"refused":            {Calibrated{Reason: "worse on fetch"}, false},
		"would publish":      {Calibrated{DryRun: true, Gate: publish}, true},
		"would not":          {Calibrated{DryRun: true, Reason: "too few"}, false},
		"lost, though ready": {Calibrated{Gate: publish}, false},
	} {
		err := c.run.Err()
		require.Equal(t, c.fine, err == nil, name)
		if err != nil {
			require.ErrorIs(t, err, ErrNotPublished)
			require.ErrorContains(t, err, c.run.Reason)
		}
	}
}

// refusing is a collector that answers as it is told.
type refusing struct{ err error }

func (r refusing) Publish(context.Context, *extract.Result) error { return r.err }

func TestLegEmitter(t *testing.T) {
	cfg := otlp.Default()
	cfg.GRPC, cfg.HTTP = "127.0.0.1:0", otlp.None
	receiver := otlp.New(cfg, refusing{}, quiet())
	require.NoError(t, receiver.Start(t.Context()))
	e, err := newLegEmitter(t.Context(), SenderSettings{}, receiver.GRPCAddr(), quiet())
	require.NoError(t, err)
	part := schema.Part{Kind: schema.KindReplay, Trace: schema.TraceID{1}, Span: schema.SpanID{2}, StartNanos: 1e18, EndNanos: 1e18 + 1e9}
	require.NoError(t, e.Emit(t.Context(), part), "it names no request: refused for good, and not to be sent again")

	require.NoError(t, receiver.Shutdown(context.WithoutCancel(t.Context())))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, e.Emit(ctx, part), "nobody accepted it")
	require.NoError(t, e.Close(t.Context()))
}

func TestCoefficientsFromAServer(t *testing.T) {
	store, key := &publish.Memory{}, filepath.Join(t.TempDir(), "key.pem")
	private, err := publish.LoadOrCreateKey(key)
	require.NoError(t, err)
	p := publish.New(store, private, publish.Options{})
	done, err := p.Publish(t.Context(), publish.Draft{Document: schema.Document{Provenance: "a test"}, Note: "first"})
	require.NoError(t, err)
	public := filepath.Join(t.TempDir(), "key.pub")
	require.NoError(t, publish.WritePublicKey(public, p.PublicKey()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/coefficients", "/v1/coefficients/1":
			w.Header().Set(coefficients.SignatureHeader, done.Signed.Signature)
			_, _ = w.Write(done.Signed.Payload)
		case "/v1/status":
			_ = json.NewEncoder(w).Encode([]schema.AppliedStatus{{Instance: "new", AtNanos: time.Now().UnixNano()}, {Instance: "old", AtNanos: 1}})
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error": "there is no revision 9"}`))
		}
	}))
	defer server.Close()
	from, s := CoefficientSource{URL: server.URL}, DefaultSettings()
	doc, err := Coefficients(t.Context(), &s, from, 0, public)
	require.NoError(t, err)
	require.True(t, doc.Verified)
	require.Contains(t, doc.Text(), "Revision 1 (replaced 0), signature verified")
	_, err = Coefficients(t.Context(), &s, from, 9, "")
	require.ErrorContains(t, err, "there is no revision 9")
	said, err := CoefficientStatus(t.Context(), &s, from, time.Hour)
	require.NoError(t, err)
	require.Len(t, said, 1)

	file := filepath.Join(t.TempDir(), "doc.json")
	require.NoError(t, os.WriteFile(file, doc.Payload, 0o600))
	_, err = VerifyCoefficients(file, doc.Signature, public)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(doc.Payload, ' '), 0o600))
	_, err = VerifyCoefficients(file, doc.Signature, public)
	require.ErrorIs(t, err, coefficients.ErrSignature)
}
