package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/kvwhatif/kvwhatif/e2e/otlptest"
	"github.com/kvwhatif/kvwhatif/internal/kafka"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/wire"
)

// spoilt are spans that must be refused: what is done to a good one, the class
// that it is counted as, and what the reason names.
var spoilt = []struct {
	name, class, reason string
	spoil               func(*trace.Span)
}{
	{"a negative duration", "negative", schema.AttrTTFT, func(s *trace.Span) { attributeOf(s, schema.AttrTTFT).Value = otlptest.Double(-1) }},
	{"an end before the start", "time", "before it starts", func(s *trace.Span) { s.EndTimeUnixNano = s.StartTimeUnixNano - 1 }},
	{"NaN outside a candidate", "not_finite", schema.AttrPrefill, func(s *trace.Span) { attributeOf(s, schema.AttrPrefill).Value = otlptest.Double(math.NaN()) }},
	{"no trace id", "identifier", "trace id", func(s *trace.Span) { s.TraceId = nil }},
	{"2 MB of attribute", "size", "attribute note", func(s *trace.Span) { attributeOf(s, "note").Value = otlptest.Text(strings.Repeat("x", 2<<20)) }},
	{"the year 1970", "time", "before the earliest", func(s *trace.Span) { s.StartTimeUnixNano, s.EndTimeUnixNano = 1e9, 2e9 }},
	{"the year 2100", "time", "after the latest", func(s *trace.Span) {
		s.StartTimeUnixNano = uint64(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
		s.EndTimeUnixNano = s.StartTimeUnixNano + 1e9
	}},
	{"an unknown path", "unknown_name", schema.AttrPath, func(s *trace.Span) { attributeOf(s, schema.AttrPath).Value = otlptest.Text("teleport") }},
	{"a choice that is not there", "candidates", schema.AttrChosen, func(s *trace.Span) { attributeOf(s, schema.AttrChosen).Value = otlptest.Integer(7) }},
	{"a text for a number", "type", schema.AttrBytes, func(s *trace.Span) { attributeOf(s, schema.AttrBytes).Value = otlptest.Text("many") }},
}

// doors are the ways in.
var doors = []struct {
	name string
	send func(*testing.T, *process, *coltrace.ExportTraceServiceRequest) *coltrace.ExportTracePartialSuccess
}{
	{"grpc", sendGRPC}, {"http", sendHTTP}, {"json", sendJSON},
}

// TestBadInput sends spans that are wrong, each beside a good one.
func TestBadInput(t *testing.T) {
	requireEngine(t)
	up := startUp(t, t.TempDir(), nil)
	base := time.Now().Add(-time.Hour)
	n := 0
	reasons := map[string]int{}
	for _, door := range doors {
		for _, c := range spoilt {
			good, bad := otlptest.Contract(contract(n, base)), otlptest.Contract(contract(n+1, base))
			n += 2
			c.spoil(bad)
			partial := door.send(t, up, requestOf(good, bad))
			require.EqualValues(t, 1, partial.GetRejectedSpans(), "%s over %s", c.name, door.name)
			require.Contains(t, partial.GetErrorMessage(), c.reason, "%s over %s", c.name, door.name)
			reasons[c.class]++
		}
	}
	checkOnlyGood(t, up, n)
	checkLetters(t, up, len(doors)*len(spoilt))
	metrics := get(t, "http://"+up.at.Metrics+"/metrics")
	for class, count := range reasons {
		require.Contains(t, metrics, fmt.Sprintf("kvwhatif_otlp_spans_rejected_total{reason=%q} %d\n", class, count))
	}
	require.Contains(t, metrics, fmt.Sprintf("kvwhatif_otlp_spans_total{result=\"accepted\"} %d\n", n/2))
}

// checkOnlyGood wants every other request, and no more, with sound values.
func checkOnlyGood(t *testing.T, up *process, n int) {
	t.Helper()
	d := openTables(t, up.at.ClickHouse)
	d.eventually(n/2, "SELECT count() FROM requests FINAL")
	require.EqualValues(t, n/2, d.number("SELECT countIf(toUInt32(substring(request_id, 5)) % 2 = 0 AND isFinite(ttft) AND ttft > 0 AND path IN ('fetch', 'recompute') "+
		"AND start > now() - 7200 AND start < now()) FROM requests FINAL"))
	require.Zero(t, d.number("SELECT count() FROM waiting FINAL"))
	d.slicesEqualARecount()
}

// checkLetters reads the dead-letter topic: each refused span with its reason,
// and whole unless it is too large.
func checkLetters(t *testing.T, up *process, want int) {
	t.Helper()
	cluster := kafka.Brokers(up.at.Kafka)
	ends, err := kafka.EndOffsets(t.Context(), cluster, "kvreuse.dead")
	require.NoError(t, err)
	require.EqualValues(t, map[int]int64{0: int64(want)}, ends)
	reader, err := kafka.NewPartitionReader(cluster, "kvreuse.dead", 0, 0)
	require.NoError(t, err)
	defer reader.Close()
	for i := range want {
		m, err := reader.Read(t.Context())
		require.NoError(t, err)
		var l wire.DeadLetter
		require.NoError(t, wire.DecodeDeadLetter(m.Value, &l))
		c := spoilt[i%len(spoilt)]
		require.Contains(t, l.Reason, c.reason, c.name)
		require.Equal(t, wire.SourceOTLP, l.Source)
		require.EqualValues(t, 1, l.Index, "place of the span in its request")
		if c.class == "size" {
			require.True(t, l.Cut())
			require.Greater(t, l.Length, int64(2<<20))
			continue
		}
		var record coltrace.ExportTraceServiceRequest
		require.NoError(t, proto.Unmarshal(l.Bytes, &record), c.name)
		require.Equal(t, schema.SpanName, record.ResourceSpans[0].ScopeSpans[0].Spans[0].Name)
	}
}

// TestNonsense sends what is no OTLP at all: a sender that is wrong must not try
// again, and nothing else suffers.
func TestNonsense(t *testing.T) {
	requireEngine(t)
	up := startUp(t, t.TempDir(), nil)
	for _, c := range []struct {
		media, body string
		code        int
	}{
		{"application/x-protobuf", "\xff\xff\xff\xff", http.StatusBadRequest},
		{"application/json", `{"resourceSpans": [`, http.StatusBadRequest},
		{"application/json", `{"resourceSpans": 7}`, http.StatusBadRequest},
		{"text/plain", "hello", http.StatusUnsupportedMediaType},
		{"application/x-protobuf", strings.Repeat("\x0a\x00", 9<<20), http.StatusRequestEntityTooLarge},
		{"application/x-protobuf", "", http.StatusOK},
	} {
		code, body := post(t, up, c.media, []byte(c.body))
		require.Equal(t, c.code, code, "%s %.20q: %s", c.media, c.body, body)
	}
	sendJSON(t, up, requestOf(otlptest.Contract(contract(0, time.Now().Add(-time.Hour)))))
	openTables(t, up.at.ClickHouse).eventually(1, "SELECT count() FROM requests FINAL")
}

func sendGRPC(t *testing.T, up *process, r *coltrace.ExportTraceServiceRequest) *coltrace.ExportTracePartialSuccess {
	t.Helper()
	answer, err := dial(t, up.at.GRPC).Export(t.Context(), r)
	require.NoError(t, err)
	return answer.GetPartialSuccess()
}

func sendHTTP(t *testing.T, up *process, r *coltrace.ExportTraceServiceRequest) *coltrace.ExportTracePartialSuccess {
	t.Helper()
	body, err := proto.Marshal(r)
	require.NoError(t, err)
	code, said := post(t, up, "application/x-protobuf", body)
	require.Equal(t, http.StatusOK, code, string(said))
	var answer coltrace.ExportTraceServiceResponse
	require.NoError(t, proto.Unmarshal(said, &answer))
	return answer.GetPartialSuccess()
}

func sendJSON(t *testing.T, up *process, r *coltrace.ExportTraceServiceRequest) *coltrace.ExportTracePartialSuccess {
	t.Helper()
	body, err := otlptest.JSON(r)
	require.NoError(t, err)
	code, said := post(t, up, "application/json", body)
	require.Equal(t, http.StatusOK, code, string(said))
	var answer coltrace.ExportTraceServiceResponse
	require.NoError(t, protojson.Unmarshal(said, &answer))
	return answer.GetPartialSuccess()
}

func post(t *testing.T, up *process, media string, body []byte) (code int, said []byte) {
	t.Helper()
	answer, err := http.Post("http://"+up.at.HTTP+"/v1/traces", media, bytes.NewReader(body))
	require.NoError(t, err)
	defer answer.Body.Close()
	said, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, said
}

func get(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	return string(body)
}
