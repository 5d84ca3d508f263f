package evaluate_test

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/evaluate"
)

// impression is one row of the Open Bandit sample.
type impression struct {
	item, position    int
	click, propensity float64
}

const items = 34

func impressions(t testing.TB, policy string) []impression {
	f, err := os.Open("testdata/obd_men_" + policy + ".csv.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	rows, err := csv.NewReader(z).ReadAll()
	require.NoError(t, err)
	require.Equal(t, []string{"item_id", "position", "click", "propensity_score"}, rows[0])
	out := make([]impression, 0, len(rows)-1)
	for _, r := range rows[1:] {
		var i impression
		var errs [4]error
		i.item, errs[0] = strconv.Atoi(r[0])
		i.position, errs[1] = strconv.Atoi(r[1])
		i.click, errs[2] = strconv.ParseFloat(r[2], 64)
		i.propensity, errs[3] = strconv.ParseFloat(r[3], 64)
		require.Equal(t, [4]error{}, errs)
		out = append(out, i)
	}
	require.Len(t, out, 10_000)
	return out
}

// table is a number by item and position.
type table [items][4]float64

// clicks is q̂: the mean click by item and position; 0 where it was never shown.
func clicks(log []impression) (q table) {
	var n table
	for _, i := range log {
		n[i.item][i.position]++
		q[i.item][i.position] += i.click
	}
	for a := range q {
		for p := range q[a] {
			q[a][p] /= math.Max(1, n[a][p])
		}
	}
	return q
}

// shown is how often a log shows each item at each position: a policy, averaged over time.
func shown(log []impression) (pi table) {
	var n [4]float64
	for _, i := range log {
		n[i.position]++
		pi[i.item][i.position]++
	}
	for a := range pi {
		for p := 1; p < 4; p++ {
			pi[a][p] /= n[p]
		}
	}
	return pi
}

func uniform() (pi table) {
	for a := range pi {
		pi[a] = [4]float64{0, 1. / items, 1. / items, 1. / items}
	}
	return pi
}

func logged(log []impression, pi, q table) []evaluate.Logged {
	out := make([]evaluate.Logged, len(log))
	for k, i := range log {
		l := evaluate.Logged{Outcome: i.click, Propensity: i.propensity, Target: pi[i.item][i.position], ModelTaken: q[i.item][i.position]}
		for a := range items {
			l.ModelTarget += pi[a][i.position] * q[a][i.position]
		}
		out[k] = l
	}
	return out
}

// TestOpenBandit values each policy of the Open Bandit sample from the log of the
// other, and holds the estimates against the formulas, written once more.
func TestOpenBandit(t *testing.T) {
	random, bts := impressions(t, "random"), impressions(t, "bts")
	for _, c := range []struct {
		name     string
		from     []impression
		to       table
		on       float64 // mean click of the policy's own log
		ipw      float64 // worked out apart, by another program
		otherwis float64
	}{
		{name: "the uniform policy from the Thompson log", from: bts, to: uniform(), on: 0.0046, ipw: 0.0030086263272564827, otherwis: 0.0069},
		{name: "the Thompson policy from the uniform log", from: random, to: shown(bts), on: 0.0069, ipw: math.NaN(), otherwis: 0.0046},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := clicks(c.from)
			got, err := evaluate.Weigh(logged(c.from, c.to, q), evaluate.Limits{})
			require.NoError(t, err)
			require.True(t, got.Known, got.Why)

			n, sumWY, sumW, dr := float64(len(c.from)), 0.0, 0.0, 0.0
			for _, i := range c.from {
				w := c.to[i.item][i.position] / i.propensity
				sumWY, sumW = sumWY+w*i.click, sumW+w
				expected := 0.0
				for a := range items {
					expected += c.to[a][i.position] * q[a][i.position]
				}
				dr += (expected + w*(i.click-q[i.item][i.position])) / n
			}
			assert.InDelta(t, sumWY/n, got.IPW.Value, 1e-9)
			assert.InDelta(t, sumWY/sumW, got.SNIPW.Value, 1e-9)
			assert.InDelta(t, dr, got.DR.Value, 1e-9)
			assert.InDelta(t, c.otherwis, got.Logged.Value, 1e-9)
			if !math.IsNaN(c.ipw) {
				assert.InDelta(t, c.ipw, got.IPW.Value, 1e-9)
			}
			for name, e := range map[string]evaluate.Estimate{"IPW": got.IPW, "SNIPW": got.SNIPW, "DR": got.DR} {
				t.Logf("%s: %.5f (%.5f to %.5f), on-policy %.5f, n %d, ESS %.0f, k %.2f", name, e.Value, e.Lo, e.Hi, c.on, got.N, got.ESS, got.ParetoK)
				assert.Less(t, math.Abs(e.Value-c.on), 4*math.Sqrt(e.SE*e.SE+c.on/1e4), name)
			}
		})
	}
}

// TestOwnValueIsTheMean: a policy's value by its own log is its mean outcome.
func TestOwnValueIsTheMean(t *testing.T) {
	for _, name := range []string{"random", "bts"} {
		log := impressions(t, name)
		rows := logged(log, table{}, table{})
		for i := range rows {
			rows[i].Target = rows[i].Propensity
		}
		got, err := evaluate.Weigh(rows, evaluate.Limits{})
		require.NoError(t, err)
		require.True(t, got.Known, got.Why)
		assert.InDelta(t, got.Logged.Value, got.IPW.Value, 1e-12)
		assert.InDelta(t, got.Logged.Value, got.SNIPW.Value, 1e-12)
		assert.InDelta(t, 0, got.Change.Value, 1e-12)
		assert.InDelta(t, float64(len(rows)), got.ESS, 1e-6)
	}
}

// TestRelabellingChangesNothing: names of items and the order of rows do not matter.
func TestRelabellingChangesNothing(t *testing.T) {
	log := impressions(t, "bts")
	a, err := evaluate.Weigh(logged(log, uniform(), clicks(log)), evaluate.Limits{})
	require.NoError(t, err)
	turned := make([]impression, len(log))
	for i, x := range log {
		x.item = (x.item*5 + 3) % items
		turned[len(log)-1-i] = x
	}
	b, err := evaluate.Weigh(logged(turned, uniform(), clicks(turned)), evaluate.Limits{})
	require.NoError(t, err)
	for _, pair := range [][2]evaluate.Estimate{{a.IPW, b.IPW}, {a.SNIPW, b.SNIPW}, {a.DR, b.DR}} {
		assert.InDelta(t, pair[0].Value, pair[1].Value, 1e-12)
		assert.InDelta(t, pair[0].SE, pair[1].SE, 1e-12)
	}
}

func TestWeighRefuses(t *testing.T) {
	rows := func(n int, f func(i int, l *evaluate.Logged)) []evaluate.Logged {
		out := make([]evaluate.Logged, n)
		for i := range out {
			out[i] = evaluate.Logged{Outcome: 1, Propensity: 0.5, Target: float64(i % 2)}
			f(i, &out[i])
		}
		return out
	}
	for name, c := range map[string]struct {
		rows []evaluate.Logged
		why  string
	}{
		"nothing":          {nil, "no outcome"},
		"never done":       {rows(1000, func(_ int, l *evaluate.Logged) { l.Unsupported = 0.2 }), "never done (propensity 0)"},
		"few agree":        {rows(40, func(int, *evaluate.Logged) {}), "agrees with 20 logged choices"},
		"one decides":      {rows(1000, func(i int, l *evaluate.Logged) { l.Propensity = map[bool]float64{true: 1e-4, false: 1}[i == 1] }), "worth"},
		"false propensity": {rows(1000, func(_ int, l *evaluate.Logged) { l.Propensity = 1 }), "mean weight is 0.50"},
	} {
		got, err := evaluate.Weigh(c.rows, evaluate.Limits{})
		require.NoError(t, err, name)
		assert.False(t, got.Known, name)
		assert.Contains(t, got.Why, c.why, name)
		assert.True(t, math.IsNaN(got.DR.Value) && math.IsNaN(got.IPW.Lo), name)
	}
	for _, bad := range []evaluate.Logged{
		{Propensity: 0}, {Propensity: math.NaN()}, {Propensity: 2}, {Propensity: 1, Target: -1}, {Propensity: 1, Outcome: math.NaN()}, {Propensity: 1, ModelTarget: math.Inf(1)},
	} {
		_, err := evaluate.Weigh([]evaluate.Logged{bad}, evaluate.Limits{})
		assert.Error(t, err, fmt.Sprint(bad))
	}
}

// TestBlocksWidenTheInterval: outcomes of one time that hang together are worth less.
func TestBlocksWidenTheInterval(t *testing.T) {
	var rows []evaluate.Logged
	for b := range int64(20) {
		for i := range 50 {
			rows = append(rows, evaluate.Logged{Block: b, Outcome: math.Sin(float64(b)), Propensity: 0.5, Target: float64(i % 2)})
		}
	}
	blocks, err := evaluate.Weigh(rows, evaluate.Limits{})
	require.NoError(t, err)
	alone, err := evaluate.Weigh(rows, evaluate.Limits{MinBlocks: 21})
	require.NoError(t, err)
	assert.Equal(t, []int{20, 0}, []int{blocks.Blocks, alone.Blocks})
	assert.InDelta(t, alone.DR.Value, blocks.DR.Value, 1e-12)
	assert.Greater(t, blocks.SNIPW.SE, 3*alone.SNIPW.SE)
}
