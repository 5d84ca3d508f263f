package load

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/schema"
)

// decided is request n as its coordinator knew it when it decided: without an
// outcome.
func decided(n uint64) *schema.Part {
	p := contract(n, 0)
	p.Observed = schema.Observed{}
	return p
}

const whole = "SELECT kind, policy, engine_model, length(spans), round(engine_ttft, 3), length(candidate.path) FROM requests FINAL"

// inAnHour is the world's clock an hour on.
func (w *world) inAnHour() {
	before := w.now
	w.now = func() time.Time { return before().Add(time.Hour) }
}

// TestOutcomeAnHourLater: the engine's span comes an hour after the decision, to
// another process; one of the two even started an hour later.
func TestOutcomeAnHourLater(t *testing.T) {
	for name, late := range map[string]time.Duration{"arrives": 0, "starts": 61 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.topic.publish(0, decided(1))
			w.loaded()
			w.inAnHour()
			outcome := engine(1, 0)
			outcome.StartNanos, outcome.EndNanos = outcome.StartNanos+int64(late), outcome.EndNanos+int64(late)
			w.topic.publish(1, outcome)
			w.loaded()
			require.Equal(t, "contract\talways\tllama-3\t2\t0.3\t2\n", w.lines(whole))
			require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
			require.Equal(t, "1\t1\n", w.lines("SELECT sum(n), sum(n_engine) FROM "+currentSlices))
		})
	}
}

// TestOutcomeAnHourBeforeItsDecision waits for it, and is then in its row.
func TestOutcomeAnHourBeforeItsDecision(t *testing.T) {
	w := newWorld(t)
	w.topic.publish(0, engine(1, 0), transfer(1, 0, 0))
	w.loaded()
	require.EqualValues(t, 0, w.number("SELECT count() FROM requests"))
	require.EqualValues(t, 2, w.number("SELECT count() FROM waiting FINAL"))
	w.inAnHour()
	w.topic.publish(1, decided(1))
	w.loaded()
	w.loaded() // the transfer hangs on the engine's span that joined just now
	require.Equal(t, "contract\talways\tllama-3\t3\t0.3\t2\n", w.lines(whole))
	require.EqualValues(t, 0, w.number("SELECT count() FROM waiting FINAL"))
	require.Equal(t, "1\t1\t3\t1000\n", w.lines("SELECT sum(n), sum(n_engine), any(gen), sum(sum_moved) FROM "+currentSlices))
}

// TestOutcomeThatNeverComes is a request of unknown benefit, counted as one
// without an outcome in the rollup and by a metric.
func TestOutcomeThatNeverComes(t *testing.T) {
	w := newWorld(t)
	reg := prometheus.NewRegistry()
	l, err := New(w.cfg, Options{Conn: w.conn, Source: w.topic.member(), Dead: w.topic, Registry: reg})
	require.NoError(t, err)
	for _, m := range []*schema.Part{decided(1), contract(2, 0), decided(3)} {
		w.topic.publish(0, m)
		next, err := l.opts.Source.Fetch(t.Context())
		require.NoError(t, err)
		l.batch.message(next)
	}
	require.NoError(t, l.round(t.Context()))
	require.NoError(t, l.Flush(t.Context()))
	require.Equal(t, "3\t1\t2\n", w.lines("SELECT sum(n), sum(n_ttft), sum(unknown) FROM "+currentSlices))
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "kvwhatif_load_without_outcome_total" {
			require.EqualValues(t, 2, f.GetMetric()[0].GetCounter().GetValue())
			return
		}
	}
	t.Fatal("no such metric")
}
