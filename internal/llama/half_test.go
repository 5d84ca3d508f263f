package llama

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Values of IEEE 754 binary16, ties and subnormals among them.
func TestHalf(t *testing.T) {
	for f, want := range map[float32]uint16{
		0: 0, 1: 0x3c00, -2: 0xc000, 65504: 0x7bff, 0.333251953125: 0x3555, 6.103515625e-05: 0x0400,
		5.9604644775390625e-08: 0x0001, 6.097555160522461e-05: 0x03ff, 1e-9: 0,
		1.00048828125: 0x3c00, 1.00146484375: 0x3c02, 0.99999: 0x3c00,
	} {
		assert.Equal(t, want, half(f), "%v", f)
	}
}
