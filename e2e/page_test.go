package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageOfUp asks the page of a program that has nothing yet: it says what is
// missing and where to send it, and answers nobody by another name.
func TestPageOfUp(t *testing.T) {
	requireEngine(t)
	up := startUp(t, t.TempDir(), nil)
	page := get(t, up.at.Page)
	require.Contains(t, page, "KV reuse")
	require.Contains(t, page, up.at.HTTP, "where to send spans")
	require.NotContains(t, page, "HELPING")

	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, up.at.Page, nil)
	require.NoError(t, err)
	request.Host = "evil.example"
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.GreaterOrEqual(t, answer.StatusCode, http.StatusBadRequest)
	up.stop(t)
}
