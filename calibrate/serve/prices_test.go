package serve

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/calibrate/publish"
	"github.com/kvwhatif/kvwhatif/calibrate/read"
	"github.com/kvwhatif/kvwhatif/internal/clickhouse/clickhousetest"
	"github.com/kvwhatif/kvwhatif/internal/migrate"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

var (
	spine = read.Route{Tier: "cpu", Link: "spine"}
	base  = time.Unix(1_700_000_000, 0) // of simulated time
)

// fetches is n eligible fetches of 1 GB that cost a second to compute.
func fetches(n int) map[read.Route][]cost.Demand {
	list := make([]cost.Demand, n)
	for i := range list {
		list[i] = cost.Demand{Bytes: 1e9, Recompute: 1}
	}
	return map[read.Route][]cost.Demand{spine: list}
}

func TestPricesFollowDemand(t *testing.T) {
	var demand read.Eligible
	var failure error
	var asked [2]int64
	w := newWorld(t, func(c *Config) {
		c.Demand = func(_ context.Context, from, until int64) (read.Eligible, error) {
			asked = [2]int64{from, until}
			return demand, failure
		}
	})
	_, err := w.server.RefreshPrices(t.Context(), base)
	require.ErrorIs(t, err, publish.ErrNotFound)
	first := w.publish("first")
	at := base
	refresh := func(after time.Duration) bool {
		at = at.Add(after)
		changed, err := w.server.RefreshPrices(t.Context(), at)
		require.NoError(t, err)
		return changed
	}
	load := func() float64 {
		held, _ := w.server.Held()
		require.Len(t, held.Document.Links, 1)
		return held.Document.Links[0].Price.Load
	}

	assert.False(t, refresh(0), "nothing was decided in the window")
	assert.Equal(t, [2]int64{base.Add(-30 * time.Second).UnixNano(), base.Add(-10 * time.Second).UnixNano()}, asked)

	// 80 GB in 20 s over 10 GB/s is a load of 0.4; at κ = 10 the best would be 0.68.
	demand = read.Eligible{Requests: 500, Services: []string{"r1", "r2"}, Routes: fetches(80)}
	assert.True(t, refresh(5*time.Second))
	assert.InDelta(t, 0.4, load(), 1e-9)
	held, _ := w.server.Held()
	assert.Equal(t, []schema.LinkPrice{{Link: "spine", Price: cost.Price{Load: held.Document.Links[0].Price.Load, MeanBytes: 1e9},
		Coordinators: 2, AsOf: at.UnixNano(), Demand: 80}}, held.Document.Links)
	assert.Equal(t, int64(2), held.Document.Revision)
	assert.Equal(t, publish.NotePrices, held.Note)
	same := held.Document
	same.Revision, same.Previous, same.Created, same.RefreshAfter, same.Links = first.Document.Revision, 0, first.Document.Created, first.Document.RefreshAfter, first.Document.Links
	assert.Equal(t, first.Document, same, "nothing else differs")
	stored, err := publish.Latest(t.Context(), w.store)
	require.NoError(t, err)
	assert.Equal(t, stored, held)

	demand.Routes = fetches(83)
	assert.False(t, refresh(5*time.Second), "0.015 decides nothing")
	demand.Routes = fetches(200)
	assert.False(t, refresh(time.Second), "too early")
	assert.True(t, refresh(4*time.Second))
	assert.InDelta(t, cost.BestLoad(10), load(), 1e-9)
	demand = read.Eligible{Services: []string{"r1"}}
	assert.False(t, refresh(5*time.Second), "not seen is not none")
	demand = read.Eligible{Requests: 10, Services: []string{"r1", "r2"}}
	assert.True(t, refresh(5*time.Second))
	assert.Zero(t, load())
	held, _ = w.server.Held()
	assert.Equal(t, 1e9, held.Document.Links[0].Price.MeanBytes)
	demand.Services = []string{"r1", "r2", "r3"}
	assert.True(t, refresh(5*time.Second), "another coordinator")

	demand.Routes = map[read.Route][]cost.Demand{{Tier: "cpu", Link: "unfitted"}: {{Bytes: 1, Recompute: 1}}, {Tier: "disk", Link: "spine"}: fetches(40)[spine]}
	assert.True(t, refresh(5*time.Second))
	assert.InDelta(t, 0.2, load(), 1e-9, "the capacity is by the law of most transfers; a link without a law has no price")

	failure = errors.New("connection refused")
	_, err = w.server.RefreshPrices(t.Context(), at.Add(time.Minute))
	require.ErrorContains(t, err, "connection refused")
}

func TestRefreshAfterIsKeptAhead(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(c *Config) {
		c.Demand = func(context.Context, int64, int64) (read.Eligible, error) { return read.Eligible{}, nil }
	})
	w.publisher = publish.New(w.store, testKey, publish.Options{Now: func() time.Time { return now }})
	w.server.cfg.Publisher = w.publisher
	w.publish("first")
	changes := 0
	for range 23 * 60 {
		now = now.Add(time.Minute)
		changed, err := w.server.RefreshPrices(t.Context(), now)
		require.NoError(t, err)
		held, _ := w.server.Held()
		require.Greater(t, held.Document.RefreshAfter, now.UnixNano())
		if changed {
			changes++
		}
	}
	assert.Equal(t, 25, changes, "one each 55 minutes")
	now = now.Add(2 * time.Hour)
	_, err := w.server.RefreshPrices(t.Context(), now)
	require.ErrorIs(t, err, publish.ErrExpired, "prices do not keep laws alive")
	assert.Contains(t, w.ask("GET", "/healthz", "").Body.String(), "revision\":26")
}

func TestWhoLosesTakesUpTheWinner(t *testing.T) {
	var w *world
	w = newWorld(t, func(c *Config) {
		c.Demand = func(ctx context.Context, _, _ int64) (read.Eligible, error) {
			d := laws()
			d.Provenance = "somebody else"
			_, err := w.publisher.Publish(ctx, publish.Draft{Document: d, Base: 1, Note: "fit"})
			return read.Eligible{Requests: 1, Routes: fetches(80)}, err
		}
	})
	w.publish("first")
	changed, err := w.server.RefreshPrices(t.Context(), base)
	require.NoError(t, err)
	assert.False(t, changed)
	held, _ := w.server.Held()
	assert.Equal(t, "somebody else", held.Document.Provenance)
	assert.Empty(t, held.Document.Links)
}

func TestCoordinators(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(c *Config) { c.Now = func() time.Time { return now } })
	s := w.server
	demand := &read.Eligible{}
	assert.EqualValues(t, 1, s.coordinators(demand))
	for i := range 3 {
		require.NoError(t, s.statuses.add(schema.AppliedStatus{Instance: fmt.Sprint(i), AtNanos: now.Add(-time.Duration(i) * 90 * time.Minute).UnixNano()}))
	}
	assert.EqualValues(t, 2, s.coordinators(demand), "one was silent for three hours")
	demand.Services = []string{"a", "b", "c", "d"}
	assert.EqualValues(t, 4, s.coordinators(demand))
	s.cfg.Coordinators = 8
	assert.EqualValues(t, 8, s.coordinators(demand))
}

func TestOverClickHouse(t *testing.T) {
	conn := clickhousetest.Open(t)
	_, err := migrate.Up(t.Context(), conn)
	require.NoError(t, err)
	store := publish.NewClickHouse(conn)
	publisher := publish.New(store, testKey, publish.Options{})
	filter := read.Filter{Policies: []string{"mine"}}
	s, err := New(Config{Store: store, Keys: []ed25519.PublicKey{testPublic}, Status: NewStatusTable(conn), Publisher: publisher,
		Demand: func(ctx context.Context, from, until int64) (read.Eligible, error) {
			return read.Demand(ctx, conn, filter, from, until)
		}})
	require.NoError(t, err)
	require.ErrorIs(t, s.Poll(t.Context()), publish.ErrNotFound)
	_, err = publisher.Publish(t.Context(), publish.Draft{Document: laws(), Note: "fit"})
	require.NoError(t, err)
	require.NoError(t, s.Poll(t.Context()))

	now := time.Now().UTC().Truncate(time.Second)
	require.NoError(t, conn.Exec(t.Context(), fmt.Sprintf("INSERT INTO requests (minute, id, kind, start, service, policy, `candidate.path`, `candidate.worker`, `candidate.tier`, `candidate.links`, `candidate.bytes`, `candidate.recompute`) "+
		"SELECT toStartOfMinute(at), toFixedString(leftPad(toString(number), 16), 16), 'contract', toDateTime(%d, 'UTC') - INTERVAL 11 + number %% 20 SECOND AS at, 'router', 'mine', ['recompute', 'fetch'], ['w', 'w'], ['', 'cpu'], ['', 'spine'], [0, 1000000000], [1.5, 0.5] FROM numbers(80)", now.Unix())))
	changed, err := s.RefreshPrices(t.Context(), now)
	require.NoError(t, err)
	require.True(t, changed)
	held, _ := s.Held()
	assert.InDelta(t, 0.4, held.Document.Links[0].Price.Load, 1e-9)
	w := &world{t: t, server: s, handler: s.Handler()}
	assert.Equal(t, held.Signed.Payload, w.ask("GET", "/v1/coefficients", "").Body.Bytes())

	for i, body := range []string{`{"instance":"a","revision":1,"applied":true}`, `{"instance":"a","revision":2,"reason":"no"}`} {
		require.Equal(t, 202, w.ask("POST", "/v1/status", body).Code, i)
	}
	require.NoError(t, s.Poll(t.Context()))
	last, err := NewStatusTable(conn).Last(t.Context(), now.Add(-time.Hour))
	require.NoError(t, err)
	require.Len(t, last, 1)
	assert.Equal(t, schema.AppliedStatus{Instance: "a", Revision: 2, Reason: "no", AtNanos: last[0].AtNanos}, last[0])
	assert.Equal(t, s.statuses.list(), last, "kept to the nanosecond")
}
