//go:build nightly

package otlp

import "testing"

// Ten thousand connections at once. It needs some 15,000 open files (ulimit -n).
func TestTenThousandConnections(t *testing.T) { crowd(t, 2000, Default().MaxConnections) }
