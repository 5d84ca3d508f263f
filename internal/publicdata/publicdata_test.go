package publicdata

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConversation(t *testing.T) {
	all, err := Conversation()
	require.NoError(t, err)
	require.Len(t, all, 12_031)
	last := int64(0)
	for _, q := range all {
		require.GreaterOrEqual(t, q.Millis, last)
		last = q.Millis
	}
	require.Equal(t, int64(3_536_999), last)
	require.Equal(t, int64(6_758), all[0].InputTokens)
	require.Len(t, all[0].Blocks, 14)
}

func TestReadRequestsRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"not JSON":       `{"timestamp": 0,`,
		"missing blocks": `{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1]}`,
		"no prompt":      `{"timestamp":0,"input_length":0,"output_length":1,"hash_ids":[]}`,
		"negative time":  `{"timestamp":-1,"input_length":1,"output_length":1,"hash_ids":[1]}`,
	} {
		_, err := readRequests(strings.NewReader(line), "f")
		require.ErrorContains(t, err, "f, request 1", name)
	}
}

func TestSeries(t *testing.T) {
	mcv, err := Series("MCv")
	require.NoError(t, err)
	require.Len(t, mcv, 9)
	require.InDelta(t, 0.71797, mcv[8].PrefillMeasured, 1e-9)
	require.InDelta(t, 147_456*32_768, mcv[8].FetchedBytes, 0)
	ldg, err := Series("LDg")
	require.NoError(t, err)
	require.Len(t, ldg, 5)
	require.InDelta(t, 1.695, ldg[4].PrefillMeasured, 1e-9)
	_, err = Series("nope")
	require.ErrorContains(t, err, "MCv or LDg")
}

func TestPublishedStatesWhatIsThere(t *testing.T) {
	rows, err := Published()
	require.NoError(t, err)
	require.Len(t, rows, 19)
	for _, r := range rows {
		require.False(t, math.IsNaN(r.PrefillMeasured))
		require.NotEmpty(t, r.Source, r.ID)
	}
}

func TestDS4(t *testing.T) {
	steps, err := DS4()
	require.NoError(t, err)
	require.Len(t, steps, 32)
	require.InDelta(t, 2048/343.76, steps[0].Seconds(), 1e-12)
	require.InDelta(t, 65_536, steps[31].Context, 0)
}

func FuzzReadRequests(f *testing.F) {
	f.Add(`{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1,2]}`)
	f.Add(`{"timestamp":0}` + "\n{")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readRequests(strings.NewReader(text), "f")
		if err == nil {
			for i := range all {
				require.NoError(t, all[i].check())
			}
		}
	})
}
