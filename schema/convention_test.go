package schema

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers are those of Enum8 columns and of the wire: a changed one makes old
// rows say something else.
func TestNamesAndNumbersStay(t *testing.T) {
	for want, p := range []Path{PathNone, PathFetch, PathRecompute, PathRoute, PathResident} {
		require.Equal(t, want, int(p))
		back, ok := ParsePath(p.String())
		require.True(t, ok)
		require.Equal(t, p, back)
	}
	for want, x := range []Tier{TierNone, TierGPU, TierCPU, TierDisk, TierObject, TierPeer} {
		require.Equal(t, want, int(x))
		back, ok := ParseTier(x.String())
		require.True(t, ok)
		require.Equal(t, x, back)
	}
	for want, l := range []Leg{LegNone, LegRejected, LegControl} {
		require.Equal(t, want, int(l))
		back, ok := ParseLeg(l.String())
		require.True(t, ok)
		require.Equal(t, l, back)
	}
	require.Equal(t, "fetch", PathFetch.String())
	require.Equal(t, "peer", TierPeer.String())
	require.Equal(t, "control", LegControl.String())
	require.Empty(t, Path(200).String())
	for _, name := range []string{"Fetch", "refetch", " fetch"} {
		_, ok := ParsePath(name)
		require.False(t, ok, name)
	}
}

func TestSizeBuckets(t *testing.T) {
	for n, want := range map[int64]int{0: 0, 512: 0, 513: 1, 2048: 1, 2049: 2, 8192: 2, 8193: 3, 32768: 3, 32769: 4, 1 << 40: 4} {
		require.Equal(t, want, SizeBucket(n), "%d tokens", n)
		require.NotEmpty(t, SizeBucketName(SizeBucket(n)))
	}
	require.Empty(t, SizeBucketName(-1))
	require.Empty(t, SizeBucketName(len(SizeBuckets)+1))
	for n := int64(0); n < 40_000; n += 7 {
		require.LessOrEqual(t, SizeBucket(n), SizeBucket(n+7), "it rises with size")
	}
}
