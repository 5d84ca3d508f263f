package otlp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func zipped(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(b)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return out.Bytes()
}

func captured(t testing.TB, name string) []byte {
	b, err := os.ReadFile("../extract/testdata/vllm/" + name)
	require.NoError(t, err)
	return b
}

// jsonContract is a contract span as OTLP/JSON has it: hex ids, 64-bit ints as
// strings or as numbers, NaN as a string, fields that nobody knows.
func jsonContract(ttft string) string {
	now := time.Now().UnixNano()
	return fmt.Sprintf(`{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"router"}}]},"scopeSpans":[{"spans":[{
		"traceId":"5b8efff798038103d269b633813fc60c","spanId":"EEE19B7EC3C1B174","name":"kvreuse.request","kind":1,"unknownField":{"a":[1]},
		"startTimeUnixNano":"%d","endTimeUnixNano":%d,"attributes":[
		{"key":"kvreuse.policy","value":{"stringValue":"p"}},{"key":"kvreuse.chosen","value":{"intValue":1}},
		{"key":"kvreuse.prefix.blocks","value":{"arrayValue":{"values":[{"intValue":"9007199254740993"},{"intValue":-7}]}}},{"key":"kvreuse.ttft","value":{"doubleValue":%s}},
		{"key":"kvreuse.candidate.path","value":{"arrayValue":{"values":[{"stringValue":"fetch"},{"stringValue":"recompute"}]}}},
		{"key":"kvreuse.candidate.ttft","value":{"arrayValue":{"values":[{"doubleValue":"NaN"},{"doubleValue":2.5}]}}}]}]}]}]}`, now, now+1e9, ttft)
}

func post(t testing.TB, r *Receiver, path, media, encoding string, body []byte) (*http.Response, []byte) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.HTTPAddr()+path, bytes.NewReader(body))
	require.NoError(t, err)
	q.Header.Set("Content-Type", media)
	if encoding != "" {
		q.Header.Set("Content-Encoding", encoding)
	}
	a, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a, b
}

// OTLP's MUSTs for HTTP, and what is refused with which code.
func TestHTTP(t *testing.T) {
	vllm, vllmJSON := captured(t, "vllm_spans_run1_grpc_15.pb"), captured(t, "vllm_spans_run1_grpc_01.json")
	deep := strings.Repeat(`{"resourceSpans":[`, 50_000)
	cases := []struct {
		name, path, media, encoding string
		body                        []byte
		code                        int
		want                        string // in the body
		parts                       int
	}{
		{"protobuf", pathTraces, typeProtobuf, "", vllm, 200, "", 13},
		{"protobuf gzip", pathTraces, typeProtobuf, "gzip", zipped(t, vllm), 200, "", 13},
		{"identity", pathTraces, typeProtobuf, "identity", vllm, 200, "", 13},
		{"empty", pathTraces, typeProtobuf, "", nil, 200, "", 0},
		{"captured JSON of spans that nobody knows", pathTraces, typeJSON, "", vllmJSON, 200, "{}", 0},
		{"JSON", pathTraces, typeJSON, "", []byte(jsonContract("1.5")), 200, "{}", 1},
		{"JSON gzip, charset", pathTraces, typeJSON + "; charset=utf-8", "gzip", zipped(t, []byte(jsonContract("1.5"))), 200, "{}", 1},
		{"JSON of a bad span", pathTraces, typeJSON, "", []byte(jsonContract(`"NaN"`)), 200, `"rejectedSpans":"1"`, 0},

		{"no protobuf", pathTraces, typeProtobuf, "", []byte("hello"), 400, "read OTLP trace request", 0},
		{"cut protobuf", pathTraces, typeProtobuf, "", vllm[:len(vllm)-1], 400, "read OTLP trace request", 0},
		{"no JSON", pathTraces, typeJSON, "", []byte("hello"), 400, "as JSON", 0},
		{"cut JSON", pathTraces, typeJSON, "", []byte(jsonContract("1"))[:200], 400, "as JSON", 0},
		{"odd hex id", pathTraces, typeJSON, "", []byte(strings.Replace(jsonContract("1"), "5b8e", "5b8", 1)), 400, "as JSON", 0},
		{"deep JSON", pathTraces, typeJSON, "", []byte(deep), 400, "as JSON", 0},
		{"deep unknown JSON", pathTraces, typeJSON, "", []byte(strings.Repeat(`{"x":[`, 150_000)), 400, "as JSON", 0},
		{"no gzip", pathTraces, typeProtobuf, "gzip", vllm, 400, "no gzip", 0},
		{"cut gzip", pathTraces, typeProtobuf, "gzip", zipped(t, vllm)[:100], 400, "ended early", 0},
		{"gzip of a wrong sum", pathTraces, typeProtobuf, "gzip", append(zipped(t, vllm)[:len(zipped(t, vllm))-8], make([]byte, 8)...), 400, "no gzip", 0},
		{"bomb", pathTraces, typeProtobuf, "gzip", zipped(t, make([]byte, 20<<20)), 413, "collect.max_request_bytes", 0},
		{"large", pathTraces, typeProtobuf, "", make([]byte, 1<<20+1), 413, "collect.max_request_bytes", 0},
		{"zstd", pathTraces, typeProtobuf, "zstd", vllm, 415, "use gzip or none", 0},
		{"other content type", pathTraces, "text/plain", "", vllm, 415, "application/x-protobuf or application/json", 0},
		{"no content type", pathTraces, "", "", vllm, 415, "application/x-protobuf or application/json", 0},
		{"metrics", "/v1/metrics", typeProtobuf, "", nil, 404, "takes traces only", 0},
		{"logs", "/v1/logs", typeProtobuf, "", nil, 404, "takes traces only", 0},
		{"elsewhere", "/", typeProtobuf, "", nil, 404, "is at /v1/traces", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var p fake
			cfg := local()
			cfg.MaxRequestBytes = 1 << 20
			r := start(t, cfg, &p)
			a, body := post(t, r, c.path, c.media, c.encoding, c.body)
			require.Equal(t, c.code, a.StatusCode, string(body))
			require.Contains(t, string(body), c.want)
			_, parts, _ := p.seen()
			require.Equal(t, c.parts, parts)
			media, _, _ := strings.Cut(c.media, ";")
			if media != typeProtobuf {
				media = typeJSON
			}
			require.Equal(t, media, a.Header.Get("Content-Type"), "the answer is of the request's type")
			checkBody(t, c.code, media, body)
		})
	}
}

// checkBody reads the body as OTLP says it is: a response, or a status.
func checkBody(t *testing.T, code int, media string, body []byte) {
	var m proto.Message = new(statuspb.Status)
	if code == 200 {
		m = new(collectorpb.ExportTraceServiceResponse)
	}
	if media == typeJSON {
		require.NoError(t, protojson.Unmarshal(body, m))
	} else {
		require.NoError(t, proto.Unmarshal(body, m))
	}
	if s, ok := m.(*statuspb.Status); ok {
		require.NotZero(t, s.Code)
		require.NotEmpty(t, s.Message)
	}
}

func TestJSONIsReadExactly(t *testing.T) {
	var p fake
	r := start(t, local(), &p)
	a, body := post(t, r, pathTraces, typeJSON, "", []byte(jsonContract("1.5")))
	require.Equal(t, 200, a.StatusCode, string(body))
	got := p.parts[0]
	require.Equal(t, "5b8efff798038103d269b633813fc60c", got.Trace.String())
	require.Equal(t, "eee19b7ec3c1b174", got.Span.String())
	require.Equal(t, []int64{9007199254740993, -7}, got.Decision.PrefixBlocks)
	require.EqualValues(t, 1, got.Decision.Chosen.V)
	require.NotEqual(t, got.Decision.Candidates[0].TTFT, got.Decision.Candidates[0].TTFT, "NaN")
	require.Equal(t, 2.5, got.Decision.Candidates[1].TTFT)
}

// Values nested as deep as a request can hold them are refused before the stack
// is exhausted, and what only looks nested is not.
func TestDeepJSONValues(t *testing.T) {
	const levels = 200_000
	value := strings.Repeat(`{"arrayValue":{"values":[`, levels) + strings.Repeat(`]}}`, levels)
	body := strings.Replace(jsonContract("1"), `{"doubleValue":1}`, value, 1)
	_, f := fromJSON([]byte(body))
	require.NotNil(t, f)
	require.Equal(t, kindInvalid, f.kind)
	require.Contains(t, f.text, "nested")

	flat := strings.Replace(jsonContract("1"), `"p"`, `"\\\"`+strings.Repeat("[{", 300)+`"`, 1)
	_, f = fromJSON([]byte(flat))
	require.Nil(t, f)
}

func TestEmptyJSONObjects(t *testing.T) {
	body := `{"resourceSpans":[{"scopeSpans":[{"spans":[{}` + strings.Repeat(",{}", 100_000) + `]}]}]}`
	_, f := fromJSON([]byte(body))
	require.NotNil(t, f)
	require.Contains(t, f.text, "mostly empty")

	blocks := strings.Replace(jsonContract("1"), `{"intValue":-7}`, strings.TrimPrefix(strings.Repeat(`,{"intValue":7}`, 60_000), ","), 1)
	_, f = fromJSON([]byte(blocks))
	require.Nil(t, f, "small numbers are the densest that a sender has")
}

func TestGetIsRefused(t *testing.T) {
	r := start(t, local(), new(fake))
	a, err := http.Get("http://" + r.HTTPAddr() + pathTraces)
	require.NoError(t, err)
	defer a.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, a.StatusCode)
	require.Equal(t, http.MethodPost, a.Header.Get("Allow"))
}

func TestHTTPSaysWhenToRetry(t *testing.T) {
	cfg := local()
	cfg.RetryAfter = 7 * time.Second
	r := start(t, cfg, &fake{errs: []error{away}})
	a, body := post(t, r, pathTraces, typeJSON, "", []byte(jsonContract("1")))
	require.Equal(t, http.StatusServiceUnavailable, a.StatusCode)
	require.Equal(t, "7", a.Header.Get("Retry-After"))
	var s struct {
		Code    codes.Code
		Message string
	}
	require.NoError(t, json.Unmarshal(body, &s))
	require.Contains(t, s.Message, "connection refused")
}

// Past the bound of memory senders are told to wait, on both protocols.
func TestMemoryIsBounded(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	cfg := local()
	cfg.MaxRequestBytes, cfg.MaxInFlightBytes, cfg.Wait = 1<<20, 4<<20, 0
	r := start(t, cfg, &p)
	e := exporters(t, r)
	held := make(chan error, 1)
	go func() { held <- exportParts(t, e["grpc"], part(1)) }()
	waitForCalls(t, &p, 1)
	require.Positive(t, r.budget.used.Load())
	fits, _ := post(t, r, pathTraces, typeProtobuf, "", make([]byte, 1<<18))
	require.NotEqual(t, http.StatusServiceUnavailable, fits.StatusCode, "large ones have room of their own")
	for {
		h := hold{budget: r.budget}
		if f := h.reserve(t.Context(), 1<<10); f != nil {
			break
		}
		defer h.release()
	}
	a, _ := post(t, r, pathTraces, typeProtobuf, "", make([]byte, 1<<10))
	require.Equal(t, http.StatusServiceUnavailable, a.StatusCode)
	close(p.wait)
	require.NoError(t, <-held)
}

// A sender that drips its request is cut off, and does not hold up others.
func TestSlowSender(t *testing.T) {
	t.Parallel()
	cfg := local()
	cfg.ReadTimeout = time.Second
	r := start(t, cfg, new(fake))
	for _, begin := range []string{"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-Slow: ", "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 100\r\n\r\nab"} {
		c, err := net.Dial("tcp", r.HTTPAddr())
		require.NoError(t, err)
		_, err = io.WriteString(c, begin)
		require.NoError(t, err)
		answer, err := io.ReadAll(c) // ends when the server closes
		require.NoError(t, err)
		require.True(t, len(answer) == 0 || strings.Contains(string(answer), " 408 "), string(answer))
		c.Close()
	}
}

// Where all connections are taken, a new one gets the place of one without a
// request: of one that never had any, before one that had.
func TestConnectionsAreBounded(t *testing.T) {
	cfg := local()
	cfg.MaxConnections = 3
	r := start(t, cfg, new(fake))
	served, err := net.Dial("tcp", r.HTTPAddr())
	require.NoError(t, err)
	defer served.Close()
	answers := bufio.NewReader(served)
	ask := func() {
		_, err := io.WriteString(served, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		a, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
	}
	ask()
	var open []net.Conn
	for range 5 { // three more than there is room for
		c, err := net.Dial("tcp", r.HTTPAddr())
		require.NoError(t, err)
		defer c.Close()
		open = append(open, c)
	}
	for _, c := range open[:3] {
		_, err := io.ReadAll(c)
		require.True(t, err == nil || strings.Contains(err.Error(), "reset"), "closed for a later one: %v", err)
	}
	ask()
	require.Equal(t, 3.0, testutil.ToFloat64(r.connectionsRefused.WithLabelValues("http")))
}

// Where all connections stay at work, a new one is closed.
func TestConnectionsAtWorkAreKept(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	cfg := local()
	cfg.MaxConnections = 1
	r := start(t, cfg, &p)
	sent := make(chan error, 1)
	e := exporters(t, r)["http"]
	go func() { sent <- exportParts(t, e, part(1)) }()
	waitForCalls(t, &p, 1)
	c, err := net.Dial("tcp", r.HTTPAddr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.ReadAll(c)
	require.True(t, err == nil || strings.Contains(err.Error(), "reset"), "closed: %v", err)
	close(p.wait)
	require.NoError(t, <-sent)
}
