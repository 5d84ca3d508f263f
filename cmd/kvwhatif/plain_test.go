package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlain(t *testing.T) {
	in := "a\x1b[2J b\tü€\U0001f600\r\n\u202ec\u0085\xff d"
	want := "a\ufffd[2J b\tü€\U0001f600\ufffd\n\ufffdc\ufffd\ufffd d"
	for step := 1; step <= len(in); step++ {
		var out bytes.Buffer
		p := &plain{w: &out}
		for at := 0; at < len(in); at += step {
			n, err := p.Write([]byte(in[at:min(at+step, len(in))]))
			require.NoError(t, err)
			require.Equal(t, min(step, len(in)-at), n)
		}
		require.Equal(t, want, out.String(), step)
	}
}
