package publish

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/fit"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/internal/migrate/migratetest"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// stores runs a test over each Store.
func stores(t *testing.T, run func(t *testing.T, s Store)) {
	t.Run("memory", func(t *testing.T) { run(t, &Memory{}) })
	t.Run("clickhouse", func(t *testing.T) {
		conn := clickhousetest.Open(t)
		_, err := migrate.Up(t.Context(), conn)
		require.NoError(t, err)
		run(t, NewClickHouse(conn))
	})
	t.Run("shards", func(t *testing.T) { run(t, NewClickHouse(migratetest.Shards(t))) })
}

func draft(base int64, c1 float64) Draft {
	return Draft{Base: base, Note: "fit", Document: schema.Document{Provenance: "test",
		Prefill: []schema.PrefillFit{{Model: "m", GPU: "g", Law: cost.Prefill{C1: c1}, Quality: schema.Quality{N: 1}}}}}
}

func TestPublishHistoryRollback(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		ctx := t.Context()
		p := New(s, testKey, Options{})
		_, err := Latest(ctx, s)
		require.ErrorIs(t, err, ErrNotFound)
		_, err = p.Rollback(ctx, 1, "test")
		require.ErrorIs(t, err, ErrNotFound)
		first, err := p.Publish(ctx, draft(0, 1e-5))
		require.NoError(t, err)
		assert.Equal(t, int64(1), first.Document.Revision)
		links := []schema.LinkPrice{{Link: "l", Coordinators: 2, Price: cost.Price{Load: 0.5}}}
		second, err := p.Prices(ctx, first, links)
		require.NoError(t, err)
		assert.Equal(t, NotePrices, second.Note)

		third, err := p.Publish(ctx, draft(1, 2e-5))
		require.NoError(t, err, "prices that came after the judgement are no conflict")
		assert.Equal(t, int64(2), third.Document.Previous)
		assert.Equal(t, links, third.Document.Links, "and are taken over")
		_, err = p.Publish(ctx, draft(1, 3e-5))
		assert.ErrorIs(t, err, ErrConflict, "a fit that came after it is")
		_, err = p.Prices(ctx, second, nil)
		assert.ErrorIs(t, err, ErrConflict, "prices would carry old laws over a fit")
		_, err = p.Publish(ctx, draft(0, 3e-5))
		assert.ErrorIs(t, err, ErrConflict, "somebody was first")
		_, err = p.Publish(ctx, draft(9, 3e-5))
		assert.ErrorIs(t, err, ErrNotFound)

		back, err := p.Rollback(ctx, 1, "by hand")
		require.NoError(t, err)
		assert.Equal(t, int64(4), back.Document.Revision)
		assert.Equal(t, first.Document.Prefill, back.Document.Prefill)
		assert.Equal(t, links, back.Document.Links)
		last, err := Latest(ctx, s)
		require.NoError(t, err)
		assert.Equal(t, back, last, "stored byte for byte")
		opened, err := coefficients.Open(last.Signed, p.PublicKey())
		require.NoError(t, err)
		assert.Equal(t, back.Document, opened)

		history, err := History(ctx, s, 3)
		require.NoError(t, err)
		require.Len(t, history, 3)
		assert.Equal(t, []string{"rollback to 1", "by hand", back.Digest}, []string{history[0].Note, history[0].Provenance, history[0].Digest})
		assert.Equal(t, int64(2), history[2].Revision)
		found, err := Get(ctx, s, 2)
		require.NoError(t, err)
		assert.Equal(t, second, found)
		_, err = Get(ctx, s, 99)
		assert.ErrorIs(t, err, ErrNotFound)
	})
}

func TestExpiryIsOfTheLaws(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := &Memory{}
	p := New(s, testKey, Options{RefreshAfter: time.Hour, Lifetime: 24 * time.Hour, Now: func() time.Time { return now }})
	first, err := p.Publish(t.Context(), draft(0, 1))
	require.NoError(t, err)
	assert.Equal(t, now.Add(time.Hour).UnixNano(), first.Document.RefreshAfter)

	now = now.Add(23*time.Hour + 30*time.Minute)
	priced, err := p.Prices(t.Context(), first, nil)
	require.NoError(t, err)
	assert.Equal(t, now.UnixNano(), priced.Document.Created)
	assert.Equal(t, first.Document.Expires, priced.Document.Expires)
	assert.Equal(t, first.Document.Expires, priced.Document.RefreshAfter)

	now = now.Add(time.Hour)
	_, err = p.Prices(t.Context(), priced, nil)
	require.ErrorIs(t, err, ErrExpired)
	assert.ErrorContains(t, err, "run kvwhatif calibrate")
	renewed, err := p.Renew(t.Context(), 1)
	require.NoError(t, err, "only prices came since")
	assert.Equal(t, now.Add(24*time.Hour).UnixNano(), renewed.Document.Expires)
	assert.Equal(t, first.Document.Prefill, renewed.Document.Prefill)
	_, err = p.Renew(t.Context(), 1)
	assert.ErrorIs(t, err, ErrConflict, "renewed already")
}

// Of publishers that judged against the same champion one wins, and the revision
// has its document.
func TestOnePublicationWins(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		won := race(t, func(i int) (Published, error) {
			return New(s, testKey, Options{}).Publish(t.Context(), draft(0, float64(i+1)))
		})
		require.Len(t, won, 1)
		for round := range 3 { // prices and fits at once: each that won has a revision of its own
			base, err := Latest(t.Context(), s)
			require.NoError(t, err)
			before := base.Document.Revision
			won := race(t, func(i int) (Published, error) {
				p := New(s, testKey, Options{})
				if i%2 == 0 {
					return p.Prices(t.Context(), base, []schema.LinkPrice{{Link: "l", Coordinators: int64(i + 1)}})
				}
				return p.Publish(t.Context(), draft(before, float64(100*round+i)))
			})
			require.NotEmpty(t, won)
			require.LessOrEqual(t, len(won), 2, "one of the prices, and after it one of the fits")
			for i, w := range won {
				stored, err := Get(t.Context(), s, before+1+int64(i))
				require.NoError(t, err)
				assert.Contains(t, won, stored)
				assert.Greater(t, w.Document.Revision, before)
			}
			after, err := Latest(t.Context(), s)
			require.NoError(t, err)
			assert.Equal(t, before+int64(len(won)), after.Document.Revision)
		}
	})
}

// race gives what those won who got no ErrConflict.
func race(t *testing.T, publish func(i int) (Published, error)) (won []Published) {
	const publishers = 8
	out, errs := make([]Published, publishers), make([]error, publishers)
	var wg sync.WaitGroup
	for i := range publishers {
		wg.Go(func() { out[i], errs[i] = publish(i) })
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil {
			won = append(won, out[i])
		} else {
			assert.ErrorIs(t, err, ErrConflict)
		}
	}
	return won
}

func TestInsert(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		row := Row{Revision: 5, CreatedNanos: time.Now().UnixNano(), Payload: "a\x00\xff", Signature: "x..y", Note: "n"}
		require.NoError(t, s.Insert(t.Context(), row))
		require.NoError(t, s.Insert(t.Context(), row), "again after an answer was lost")
		other := row
		other.Payload = "b"
		assert.ErrorIs(t, s.Insert(t.Context(), other), ErrTaken)
		for _, revision := range []int64{7, 6} {
			other.Revision = revision
			require.NoError(t, s.Insert(t.Context(), other))
		}
		newest, err := s.Newest(t.Context(), 2)
		require.NoError(t, err)
		require.Len(t, newest, 2)
		assert.Equal(t, []int64{7, 6}, []int64{newest[0].Revision, newest[1].Revision})
		got, err := s.At(t.Context(), 5)
		require.NoError(t, err)
		assert.Equal(t, row, got)
	})
}

// deaf loses the answer to its first insert, before or after the row is kept.
type deaf struct {
	Memory
	kept bool
	lost bool
}

func (d *deaf) Insert(ctx context.Context, row Row) error {
	if d.lost {
		return d.Memory.Insert(ctx, row)
	}
	d.lost = true
	if d.kept {
		_ = d.Memory.Insert(ctx, row)
	}
	return errors.New("connection reset")
}

func TestALostAnswerIsAskedForAgain(t *testing.T) {
	for _, kept := range []bool{false, true} {
		s := &deaf{kept: kept}
		first, err := New(s, testKey, Options{}).Publish(t.Context(), draft(0, 1))
		require.NoError(t, err)
		rows, err := s.Newest(t.Context(), 10)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, string(first.Signed.Payload), rows[0].Payload)
	}
}

// The token keeps the revision even where no publisher saw the other's row.
func TestTheTokenDecides(t *testing.T) { migratetest.Each(t, theTokenDecides) }

func theTokenDecides(t *testing.T, conn *clickhouse.Conn) {
	s := NewClickHouse(conn)
	first := Row{Revision: 1, CreatedNanos: 2, Payload: "first"}
	require.NoError(t, s.insert(t.Context(), first))
	require.NoError(t, s.insert(t.Context(), Row{Revision: 1, CreatedNanos: 1, Payload: "second, and created before"}))
	got, err := s.At(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, first, got)
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

	public := filepath.Join(t.TempDir(), "calibrate.pub")
	require.NoError(t, WritePublicKey(public, keys[0].Public().(ed25519.PublicKey)))
	text, err := os.ReadFile(public)
	require.NoError(t, err)
	parsed, err := coefficients.ParsePublicKeys(text)
	require.NoError(t, err)
	assert.Equal(t, []ed25519.PublicKey{keys[0].Public().(ed25519.PublicKey)}, parsed)

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
	p := New(&Memory{}, testKey, Options{})
	published, err := p.Publish(context.Background(), draft(0, 2e-5))
	fmt.Println(published.Document.Revision, err)
	// Output: 1 <nil>
}
