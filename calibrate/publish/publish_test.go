package publish

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
	"github.com/kvwhatif/kvwhatif/schema/cost"
	"github.com/kvwhatif/kvwhatif/schema/ddl"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// stores runs a test over each Store.
func stores(t *testing.T, run func(t *testing.T, s Store)) {
	t.Run("memory", func(t *testing.T) { run(t, &Memory{}) })
	t.Run("clickhouse", func(t *testing.T) {
		conn := clickhousetest.Open(t)
		for _, o := range ddl.Objects() {
			if o.Name == "coefficients" {
				require.NoError(t, conn.Exec(t.Context(), o.SQL))
			}
		}
		run(t, NewClickHouse(conn))
	})
}

func draft(base int64, c1 float64) Draft {
	return Draft{Base: base, Note: "fit", Document: schema.Document{Provenance: "test",
		Prefill: []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: c1}, Quality: schema.Quality{N: 1}}}}}
}

func TestPublishHistoryRollback(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		ctx := t.Context()
		p := New(s, testKey, 0, 0)
		_, err := p.Latest(ctx)
		require.ErrorIs(t, err, ErrNotFound)
		first, err := p.Publish(ctx, draft(0, 1e-5))
		require.NoError(t, err)
		assert.Equal(t, int64(1), first.Document.Revision)
		priced := first.Document
		priced.Links = []schema.LinkPrice{{Link: "l", Coordinators: 2, Price: cost.Price{Load: 0.5}}}
		_, err = p.Publish(ctx, Draft{Document: priced, Base: 1, Note: NotePrices})
		require.NoError(t, err)

		third, err := p.Publish(ctx, draft(1, 2e-5))
		require.NoError(t, err, "prices that came after the judgement are no conflict")
		assert.Equal(t, int64(2), third.Document.Previous)
		assert.Len(t, third.Document.Links, 1, "and are taken over")
		_, err = p.Publish(ctx, draft(1, 3e-5))
		assert.ErrorIs(t, err, ErrConflict, "a fit that came after it is")
		_, err = p.Publish(ctx, Draft{Document: priced, Base: 2, Note: NotePrices})
		assert.ErrorIs(t, err, ErrConflict, "prices would carry old laws over a fit")
		_, err = p.Publish(ctx, draft(0, 3e-5))
		assert.ErrorIs(t, err, ErrConflict, "somebody was first")

		back, err := p.Rollback(ctx, 1, "test")
		require.NoError(t, err)
		assert.Equal(t, int64(4), back.Document.Revision)
		assert.Equal(t, first.Document.Prefill, back.Document.Prefill)
		assert.Len(t, back.Document.Links, 1)
		last, err := p.Latest(ctx)
		require.NoError(t, err)
		assert.Equal(t, back.Signed, last.Signed, "stored byte for byte")
		opened, err := coefficients.Open(last.Signed, p.PublicKey())
		require.NoError(t, err)
		assert.Equal(t, back.Document, opened)

		history, err := p.History(ctx, 3)
		require.NoError(t, err)
		require.Len(t, history, 3)
		assert.Equal(t, "rollback to 1", history[0].Note)
		assert.Equal(t, int64(2), history[2].Revision)
		_, err = p.Get(ctx, 99)
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

// Of publishers that judged against the same champion one wins, and no revision
// has two documents.
func TestOnePublicationWins(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		const publishers = 8
		errs := make([]error, publishers)
		var wg sync.WaitGroup
		for i := range publishers {
			wg.Go(func() { _, errs[i] = New(s, testKey, 0, 0).Publish(t.Context(), draft(0, float64(i+1))) })
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				assert.ErrorIs(t, err, ErrConflict)
			}
		}
		assert.Equal(t, 1, won)
		rows, err := s.Newest(t.Context(), 100)
		require.NoError(t, err)
		documents := 0
		for _, r := range rows {
			if r.Payload != "" {
				documents++
			}
		}
		assert.Equal(t, 1, documents)
	})
}

// A claim that its publisher left behind is waited for, then passed over; the
// document of a publisher that comes back after that is not the newest, and it is
// told.
func TestAbandonedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Memory{}
		p := New(s, testKey, 0, 0)
		mine, err := p.claim(t.Context(), 1, "sleeper")
		require.NoError(t, err)
		require.True(t, mine)
		began := time.Now()
		other, err := p.Publish(t.Context(), draft(0, 1))
		require.NoError(t, err)
		assert.Equal(t, int64(2), other.Document.Revision)
		assert.GreaterOrEqual(t, time.Since(began), ClaimLife)
		_, err = p.publishAs(t.Context(), draft(0, 2), 1, nil)
		assert.ErrorIs(t, err, ErrConflict)
		last, err := p.Latest(t.Context())
		require.NoError(t, err)
		assert.Equal(t, other.Digest, last.Digest)

		_, err = p.claim(t.Context(), 3, "sleeper")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Publish(ctx, draft(2, 1))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys", "signing.pem")
	keys := make([]ed25519.PrivateKey, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i], _ = LoadOrCreateKey(file) })
	}
	wg.Wait()
	for _, k := range keys {
		require.NotNil(t, k)
		assert.True(t, keys[0].Equal(k), "all processes have the same key")
	}
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Chmod(file, 0o644))
	_, err = LoadOrCreateKey(file)
	assert.ErrorContains(t, err, "chmod 600")
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.WriteFile(file, []byte("no key"), 0o600))
	_, err = LoadOrCreateKey(file)
	assert.ErrorContains(t, err, "no PEM block")
}

func TestAssembleTakesOverWhatWasNotFitted(t *testing.T) {
	champion := draft(0, 1).Document
	champion.Prefill = append(champion.Prefill, schema.PrefillFit{Model: "rare", GPU: "g"})
	champion.Queue = schema.QueueFit{Slope: 2, Quality: schema.Quality{N: 9}}
	laws := fit.Laws{Prefill: []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: 5}}}}
	got := Assemble(laws, &champion, "test")
	require.Len(t, got.Prefill, 2)
	assert.InDelta(t, 5, got.Prefill[0].Law.C1, 0)
	assert.Equal(t, "rare", got.Prefill[1].Model)
	assert.InDelta(t, 2, got.Queue.Slope, 0)
	assert.Empty(t, Assemble(fit.Laws{}, nil, "test").Prefill)
}

func ExamplePublisher_Publish() {
	p := New(&Memory{}, testKey, time.Hour, 24*time.Hour)
	published, err := p.Publish(context.Background(), draft(0, 2e-5))
	fmt.Println(published.Document.Revision, err)
	// Output: 1 <nil>
}
