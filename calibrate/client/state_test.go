package client

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// fakeServer is a transport that answers as the coefficient server does, without
// a network, so that time can be faked.
type fakeServer struct {
	mu       sync.Mutex
	signed   *schema.SignedDocument
	away     bool
	polls    int
	statuses []schema.AppliedStatus
}

func (f *fakeServer) set(s *schema.SignedDocument, away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signed, f.away = s, away
}

func (f *fakeServer) told() []schema.AppliedStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]schema.AppliedStatus(nil), f.statuses...)
}

func (f *fakeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errors.New("connection refused")
	}
	if r.Method == http.MethodPost {
		var s schema.AppliedStatus
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			return nil, err
		}
		f.statuses = append(f.statuses, s)
		return answer(http.StatusNoContent, nil, ""), nil
	}
	f.polls++
	if f.signed == nil {
		return answer(http.StatusNotFound, []byte("nothing is published"), ""), nil
	}
	tag := `"` + coefficients.Digest(f.signed.Payload) + `"`
	if r.Header.Get("If-None-Match") == tag {
		return answer(http.StatusNotModified, nil, tag), nil
	}
	resp := answer(http.StatusOK, f.signed.Payload, tag)
	resp.Header.Set(coefficients.SignatureHeader, f.signed.Signature)
	return resp, nil
}

func answer(code int, body []byte, tag string) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Etag": {tag}},
		Body: io.NopCloser(bytes.NewReader(body))}
}

func TestStatesOfAnUnansweredClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		first := seal(t, document(1, time.Now()))
		server.set(&first, false)
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, Config{URL: "http://calibrate", HTTPClient: &http.Client{Transport: server}, Instance: "r1"})
		assert.Equal(t, FallBack, c.Snapshot().State)
		c.Start(ctx)
		synctest.Wait()
		assert.Equal(t, Fresh, c.Snapshot().State)
		assert.Equal(t, int64(1), c.Snapshot().Revision)
		r := request(c)
		assert.NotZero(t, c.Decide(&r, nil).Predictions[0].Flags&Priced)

		server.set(nil, true)
		for _, step := range []struct {
			after time.Duration
			want  State
		}{{time.Hour, Stale}, {23 * time.Hour, Expired}, {DefaultGrace, FallBack}} {
			time.Sleep(step.after - time.Nanosecond)
			synctest.Wait()
			assert.Equal(t, step.want-1, c.Snapshot().State)
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			got := c.Decide(&r, nil)
			assert.Equal(t, step.want, got.State)
			assert.Equal(t, step.want == Stale, got.Predictions[0].Flags&Priced != 0, "an expired price is not used")
			assert.Equal(t, step.want == FallBack, got.Predictions[0].Flags&PrefillFallback != 0)
		}
		assert.Error(t, c.Snapshot().Err)

		second := seal(t, document(2, time.Now()))
		server.set(&second, false)
		time.Sleep(2 * DefaultMaxBackoff)
		synctest.Wait()
		assert.Equal(t, Fresh, c.Snapshot().State)
		assert.NoError(t, c.Snapshot().Err)
		cancel()
		<-c.Done()
		require.Len(t, server.told(), 2)
		assert.Equal(t, int64(2), server.told()[1].Revision)
		assert.True(t, server.told()[1].Applied)
	})
}

func TestRefusals(t *testing.T) {
	stranger := keyOf("stranger")
	for _, tc := range []struct {
		name string
		sign func(t *testing.T, now time.Time) schema.SignedDocument
		says string
	}{
		{"signed by a stranger", func(t *testing.T, now time.Time) schema.SignedDocument {
			s, err := coefficients.Seal(document(9, now), stranger)
			require.NoError(t, err)
			return s
		}, "signature"},
		{"one byte changed", func(t *testing.T, now time.Time) schema.SignedDocument {
			s := seal(t, document(9, now))
			s.Payload[len(s.Payload)/2] ^= 1
			return s
		}, "signature"},
		{"an older revision", func(t *testing.T, now time.Time) schema.SignedDocument { return seal(t, document(3, now)) }, "only grow"},
		{"the same revision with other content", func(t *testing.T, now time.Time) schema.SignedDocument {
			d := document(5, now)
			d.Provenance = "other"
			return seal(t, d)
		}, "only grow"},
		{"expired", func(t *testing.T, now time.Time) schema.SignedDocument {
			return seal(t, document(9, now.Add(-48*time.Hour)))
		}, "expired"},
		{"of a later version", func(t *testing.T, now time.Time) schema.SignedDocument {
			payload := []byte(`{"version":2,"revision":9}`)
			signature, err := coefficients.Sign(payload, testKey)
			require.NoError(t, err)
			return schema.SignedDocument{Payload: payload, Signature: signature}
		}, "version 2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &fakeServer{}
			good := seal(t, document(5, time.Now()))
			server.set(&good, false)
			ctx, cancel := context.WithCancel(t.Context())
			c := newClient(t, Config{URL: "http://calibrate", HTTPClient: &http.Client{Transport: server}})
			c.Start(ctx)
			synctest.Wait()
			bad := tc.sign(t, time.Now())
			server.set(&bad, false)
			time.Sleep(time.Minute)
			synctest.Wait()
			cancel()
			<-c.Done()
			assert.Equal(t, int64(5), c.Snapshot().Revision, tc.name)
			told := server.told()
			require.Len(t, told, 2, "%s: refused once, not at each poll", tc.name)
			assert.False(t, told[1].Applied, tc.name)
			assert.Contains(t, told[1].Reason, tc.says, tc.name)
		})
	}
}

func TestPollsAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{}
		s := seal(t, document(1, time.Now()))
		server.set(&s, false)
		ctx, cancel := context.WithCancel(t.Context())
		c := newClient(t, Config{URL: "http://calibrate", HTTPClient: &http.Client{Transport: server}})
		c.Start(ctx)
		time.Sleep(time.Minute)
		cancel()
		<-c.Done()
		assert.InDelta(t, 13, server.polls, 1, "a server that does not wait is asked each DefaultMinPoll")
	})
}

func TestLastGoodOnDisk(t *testing.T) {
	file := filepath.Join(t.TempDir(), "coefficients.json")
	s := seal(t, document(4, time.Now()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			return
		}
		tag := `"` + coefficients.Digest(s.Payload) + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			<-r.Context().Done() // a long poll
			return
		}
		w.Header().Set(coefficients.SignatureHeader, s.Signature)
		_, _ = w.Write(s.Payload)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	c := newClient(t, Config{URL: server.URL, CacheFile: file})
	c.Start(ctx)
	require.Eventually(t, func() bool { return c.Snapshot().Revision == 4 && exists(file) }, 30*time.Second, time.Millisecond)
	cancel()
	<-c.Done()
	server.Close()

	var errs []error
	again := newClient(t, Config{CacheFile: file, OnError: func(err error) { errs = append(errs, err) }})
	assert.Equal(t, int64(4), again.Snapshot().Revision, "decides by the last good document")
	assert.Equal(t, Fresh, again.Snapshot().State)
	assert.ErrorContains(t, again.Apply(seal(t, document(3, time.Now()))), "only grow", "the floor outlives the process")
	assert.Empty(t, errs)

	wrong := newClient(t, Config{CacheFile: file, PublicKeys: []ed25519.PublicKey{keyOf("other").Public().(ed25519.PublicKey)},
		OnError: func(err error) { errs = append(errs, err) }})
	assert.Equal(t, FallBack, wrong.Snapshot().State)
	require.Len(t, errs, 1)
	assert.ErrorIs(t, errs[0], coefficients.ErrSignature)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func TestConfigSaysWhatToDo(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		says string
	}{
		{Config{}, "Fallback.Prefill"},
		{Config{Fallback: Fallback{Prefill: testPrefill}}, "Fallback.Transfer"},
		{Config{Fallback: testFallback, URL: "http://x"}, "PublicKeys"},
		{Config{Fallback: testFallback, URL: "x:1", PublicKeys: []ed25519.PublicKey{testPublic}}, "http://host:port"},
		{Config{Fallback: testFallback, Explore: 2}, "Explore"},
	} {
		_, err := New(tc.cfg)
		assert.ErrorContains(t, err, tc.says)
	}
}
