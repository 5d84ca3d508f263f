//go:build nightly

package e2e

// How much is sent, and how often something is killed.
const (
	killSpans  = 400_000
	killRounds = 8
)
