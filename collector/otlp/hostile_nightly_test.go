//go:build nightly

package otlp

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ten thousand connections at once. It needs some 15,000 open files (ulimit -n).
func TestTenThousandConnections(t *testing.T) { crowd(t, 2000, Default().MaxConnections) }

// tooLarge sends 100 MB with Python's own client, which writes all of it before it
// reads, and prints the code of the answer.
const tooLarge = `
import sys, urllib.request
q = urllib.request.Request("http://" + sys.argv[1] + "/v1/traces", data=bytes(100_000_000), headers={"Content-Type": "application/x-protobuf"})
try:
    print(urllib.request.urlopen(q).status)
except urllib.error.HTTPError as e:
    print(e.code)
`

func TestTooLargeIsSeenByPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	r := start(t, local(), new(fake))
	out, err := exec.Command(python, "-c", tooLarge, r.HTTPAddr()).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "413\n", string(out))
}
