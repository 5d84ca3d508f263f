package execute_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/replay/execute"
	"github.com/kvwhatif/kvwhatif/replay/execute/executetest"
)

// TestStateOverHTTP: the idle gate's question reaches an executor elsewhere.
func TestStateOverHTTP(t *testing.T) {
	want := execute.State{GPUQueue: 0.25, Flows: math.NaN()}
	server := httptest.NewServer(execute.Handler(&executetest.Fake{Probed: func(l execute.Leg) execute.State {
		assert.Equal(t, "ab", l.ID)
		return want
	}}))
	defer server.Close()
	c, err := execute.NewSimulator(server.URL, time.Minute)
	require.NoError(t, err)
	leg := execute.Leg{ID: "ab", Of: [16]byte{1}, Inclusion: 1}
	got, err := c.State(t.Context(), leg)
	require.NoError(t, err)
	assert.Equal(t, want.GPUQueue, got.GPUQueue)
	assert.True(t, math.IsNaN(got.Flows), "not known is not zero")
}

func TestStateThatIsNotServed(t *testing.T) {
	for status, want := range map[int]error{404: execute.ErrNoState, 405: execute.ErrNoState, 503: execute.ErrUnavailable, 422: execute.ErrRefused} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		c, err := execute.NewSimulator(server.URL, time.Minute)
		require.NoError(t, err)
		_, err = c.State(t.Context(), execute.Leg{ID: "ab"})
		assert.True(t, errors.Is(err, want), "%d: %v", status, err)
		server.Close()
		_, err = c.State(t.Context(), execute.Leg{ID: "ab"})
		assert.ErrorIs(t, err, execute.ErrUnavailable)
	}
}
