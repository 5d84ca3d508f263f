package client

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
	"github.com/kvwhatif/kvwhatif/schema/cost"
)

const gib = 1 << 30

var (
	testKey      = keyOf("publisher")
	testPublic   = testKey.Public().(ed25519.PublicKey)
	testFallback = Fallback{
		Prefill:  cost.Prefill{C1: 1e-3},
		Transfer: cost.Transfer{T0: 0.1, Link: cost.Link{B: 1e9}},
	}
	testPrefill  = cost.Prefill{C0: 1e-3, C1: 2e-5, C2: 1e-10, Chunk: 2048}
	testTransfer = cost.Transfer{T0: 4e-4, Cold: 0.5, Link: cost.Link{B: 50e9}}
	testRestore  = cost.Restore{D0: 1e-3, D1: 1e-12}
)

func keyOf(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// document is good from now: fresh for an hour, expired after a day.
func document(revision int64, now time.Time) schema.Document {
	box := schema.Quality{N: 1000, Form: "test", MaxTokens: 100_000, MaxBytes: 8 * gib, MaxConcurrent: 32}
	return schema.Document{
		Version: schema.DocumentVersion, Revision: revision, Previous: revision - 1,
		Created: now.UnixNano(), RefreshAfter: now.Add(time.Hour).UnixNano(), Expires: now.Add(24 * time.Hour).UnixNano(),
		Prefill:  []schema.PrefillFit{{Model: "m", GPU: "g", Law: testPrefill, Quality: box}},
		Transfer: []schema.TransferFit{{Tier: "peer", Link: "spine", Law: testTransfer, Quality: box}},
		Restore:  []schema.RestoreFit{{Model: "m", Tier: "peer", Law: testRestore, Quality: box}},
		Links: []schema.LinkPrice{{Link: "spine", Price: cost.Price{Load: 0.6, MeanBytes: gib},
			Coordinators: 8, AsOf: now.UnixNano(), Demand: 100}},
	}
}

func seal(t testing.TB, d schema.Document) schema.SignedDocument {
	t.Helper()
	s, err := coefficients.Seal(d, testKey)
	require.NoError(t, err)
	return s
}

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	cfg.Fallback = testFallback
	if cfg.PublicKeys == nil {
		cfg.PublicKeys = []ed25519.PublicKey{testPublic}
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// request has the four candidates of a prefix of 8,192 tokens, 1 GiB.
func request(c *Client) Request {
	fetch := Candidate{
		Path: schema.PathFetch, Prefill: c.PrefillKey("m", "g"), Transfer: c.TransferKey(schema.TierPeer, "spine"),
		Restore: c.RestoreKey("m", schema.TierPeer), Fetched: 8192, Computed: 128, Bytes: gib, GPUQueue: 0.01,
		Arrivals: 3, Load: 0.4,
	}
	r := Request{Key: 42, Links: []Link{{Own: 1, Others: 3, Age: 2}}}
	r.Candidates = AppendSplits(nil, fetch, 16)
	route := Candidate{Path: schema.PathRoute, Prefill: fetch.Prefill, Link: -1, Resident: 8192, Computed: 128,
		GPUQueue: 0.4, Hop: 1e-3, Arrivals: 3, Load: 0.8}
	r.Candidates = append(r.Candidates, route)
	return r
}
