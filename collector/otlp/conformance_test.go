package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/kvwhatif/kvwhatif/internal/secure"
	"github.com/kvwhatif/kvwhatif/internal/secure/securetest"
)

// Every refusal over HTTP has a google.rpc.Status as its body, with what OTLP wants
// in its details.
func TestHTTPRefusalsAreStatuses(t *testing.T) {
	for _, c := range []struct {
		name, method, path, media, encoding, body string
		code                                      int
		detail                                    proto.Message
	}{
		{"bad protobuf", "POST", pathTraces, typeProtobuf, "", "hello", 400, new(errdetails.BadRequest)},
		{"bad JSON", "POST", pathTraces, typeJSON, "", "hello", 400, new(errdetails.BadRequest)},
		{"text that is no UTF-8", "POST", pathTraces, typeJSON, "", "\xff\xfe", 400, new(errdetails.BadRequest)},
		{"metrics", "POST", "/v1/metrics", typeProtobuf, "", "", 404, nil},
		{"logs", "POST", "/v1/logs", typeJSON, "", "", 404, nil},
		{"profiles", "POST", "/v1development/profiles", typeProtobuf, "", "", 404, nil},
		{"elsewhere", "GET", "/", "", "", "", 404, nil},
		{"GET", "GET", pathTraces, "", "", "", 405, nil},
		{"PUT", "PUT", pathTraces, typeProtobuf, "", "", 405, nil},
		{"other type", "POST", pathTraces, "text/plain", "", "", 415, nil},
		{"other encoding", "POST", pathTraces, typeProtobuf, "zstd", "", 415, nil},
		{"too large", "POST", pathTraces, typeJSON, "", strings.Repeat(" ", 2<<10), 413, nil},
		{"Kafka is away", "POST", pathTraces, typeJSON, "", "{}", 503, new(errdetails.RetryInfo)},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := local()
			cfg.MaxRequestBytes = 1 << 10
			r := start(t, cfg, &fake{errs: []error{away}})
			q, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+r.HTTPAddr()+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			q.Header.Set("Content-Type", c.media)
			q.Header.Set("Content-Encoding", c.encoding)
			a, err := http.DefaultClient.Do(q)
			require.NoError(t, err)
			defer a.Body.Close()
			body, err := io.ReadAll(a.Body)
			require.NoError(t, err)
			require.Equal(t, c.code, a.StatusCode, string(body))
			want, read := typeJSON, protojson.Unmarshal
			if c.media == typeProtobuf {
				want, read = typeProtobuf, proto.Unmarshal
			}
			require.Equal(t, want, a.Header.Get("Content-Type"))
			var s statuspb.Status
			require.NoError(t, read(body, &s))
			require.NotEmpty(t, s.Message)
			require.Equal(t, c.code == 503, a.Header.Get("Retry-After") != "")
			if c.detail == nil {
				require.Empty(t, s.Details)
				return
			}
			require.Len(t, s.Details, 1)
			require.NoError(t, s.Details[0].UnmarshalTo(c.detail))
		})
	}
}

func TestGRPCSaysWhatIsBad(t *testing.T) {
	r := start(t, local(), new(fake))
	_, err := export(t, dial(t, r), []byte("hello"))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	details := status.Convert(err).Details()
	require.Len(t, details, 1)
	require.Contains(t, details[0].(*errdetails.BadRequest).FieldViolations[0].Description, "read OTLP trace request")
}

// A request that is too large is not to be sent again: it has no RetryInfo.
func TestGRPCTooLargeIsNotRetried(t *testing.T) {
	cfg := local()
	cfg.MaxRequestBytes = 1 << 10
	r := start(t, cfg, new(fake))
	_, err := export(t, dial(t, r), make([]byte, 2<<10))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Empty(t, status.Convert(err).Details())
}

// Where everything is accepted partial_success is not set; else it says how many
// spans are refused, and why, in a few words whatever was sent.
func TestHTTPPartialSuccess(t *testing.T) {
	good, bad := jsonContract("1.5"), jsonContract("-1")
	many := strings.Replace(bad, `"scopeSpans":[`, `"scopeSpans":[`+strings.Repeat(spansOf(bad)+",", 500), 1)
	for name, c := range map[string]struct {
		body     string
		rejected int64
	}{"good": {good, 0}, "empty": {"{}", 0}, "no spans": {`{"resourceSpans":[{"scopeSpans":[{}]}]}`, 0}, "bad": {bad, 1}, "many": {many, 501}} {
		for _, media := range []string{typeJSON, typeProtobuf} {
			r := start(t, local(), new(fake))
			body, read := []byte(c.body), protojson.Unmarshal
			if media == typeProtobuf {
				var f *failure
				body, f = fromJSON(body)
				require.Nil(t, f)
				read = proto.Unmarshal
			}
			a, answer := post(t, r, pathTraces, media, "", body)
			require.Equal(t, http.StatusOK, a.StatusCode)
			var response collectorpb.ExportTraceServiceResponse
			require.NoError(t, read(answer, &response))
			require.Less(t, len(answer), 4<<10)
			if c.rejected == 0 {
				require.Nil(t, response.PartialSuccess, name)
				continue
			}
			require.Equal(t, c.rejected, response.PartialSuccess.RejectedSpans, name)
			require.Contains(t, response.PartialSuccess.ErrorMessage, "kvreuse.ttft", name)
		}
	}
}

// spansOf is the element of scopeSpans in a body of jsonContract.
func spansOf(body string) string {
	_, spans, _ := strings.Cut(body, `"scopeSpans":[`)
	return strings.TrimSuffix(spans, "]}]}")
}

// Fields that nobody knows are as if they were not there, at every level.
func TestJSONUnknownFieldsAreIgnored(t *testing.T) {
	const unknown = `"new":{"a":[1,{"b":null}]},"other":"x",`
	body := strings.NewReplacer(`{"resourceSpans"`, `{`+unknown+`"resourceSpans"`, `{"resource"`, `{`+unknown+`"resource"`, `{"attributes"`, `{`+unknown+`"attributes"`,
		`{"spans"`, `{`+unknown+`"spans"`, `{"key"`, `{`+unknown+`"key"`, `{"stringValue"`, `{`+unknown+`"stringValue"`, `{"values"`, `{`+unknown+`"values"`).Replace(jsonContract("1.5"))
	require.Greater(t, strings.Count(body, unknown), 10)
	var p, plain fake
	a, answer := post(t, start(t, local(), &p), pathTraces, typeJSON, "", []byte(body))
	require.Equal(t, http.StatusOK, a.StatusCode, string(answer))
	_, _ = post(t, start(t, local(), &plain), pathTraces, typeJSON, "", []byte(jsonContract("1.5")))
	require.Equal(t, plain.parts[0].Decision.Policy, p.parts[0].Decision.Policy)
	require.Equal(t, plain.parts[0].Observed.TTFT, p.parts[0].Observed.TTFT)
	require.Equal(t, plain.parts[0].Trace, p.parts[0].Trace)
}

// The port of OTLP/HTTP speaks HTTP/1.1 and HTTP/2, in the clear and over TLS.
func TestHTTPVersions(t *testing.T) {
	a := securetest.New(t)
	var files secure.ServerFiles
	files.Cert, files.Key = a.Issue(t, "server")
	encrypted := local()
	var err error
	encrypted.TLS, err = files.Config(nil)
	require.NoError(t, err)
	trusts, err := secure.ClientFiles{CA: a.CA}.Config()
	require.NoError(t, err)
	for scheme, cfg := range map[string]Config{"http": local(), "https": encrypted} {
		r := start(t, cfg, new(fake))
		for major, set := range map[int]func(*http.Protocols){1: func(p *http.Protocols) { p.SetHTTP1(true) },
			2: func(p *http.Protocols) { p.SetHTTP2(true); p.SetUnencryptedHTTP2(true) }} {
			transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: trusts.Clone()}
			set(transport.Protocols)
			a, err := (&http.Client{Transport: transport}).Post(scheme+"://"+r.HTTPAddr()+pathTraces, typeJSON, strings.NewReader(jsonContract("1")))
			require.NoError(t, err, "%s %d", scheme, major)
			a.Body.Close()
			require.Equal(t, major, a.ProtoMajor)
			require.Equal(t, http.StatusOK, a.StatusCode)
			transport.CloseIdleConnections()
		}
	}
}

// A connection serves one request after the other.
func TestHTTPConnectionsAreKept(t *testing.T) {
	r := start(t, local(), new(fake))
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	for i := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.HTTPAddr()+pathTraces, bytes.NewReader(nil))
		require.NoError(t, err)
		q.Header.Set("Content-Type", typeProtobuf)
		a, err := transport.RoundTrip(q)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, a.Body)
		require.NoError(t, err)
		a.Body.Close()
		require.Equal(t, i > 0, reused)
	}
}

// Many calls are under way on one connection at a time.
func TestGRPCConcurrentCalls(t *testing.T) {
	p := fake{wait: make(chan struct{})}
	r := start(t, local(), &p)
	c := dial(t, r)
	const calls = 100
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			if _, err := export(t, c, nil); err != nil {
				t.Error(err)
			}
		})
	}
	waitForCalls(t, &p, calls) // none is answered yet
	close(p.wait)
	all.Wait()
}

func TestDefaultsAreThoseOfOTLP(t *testing.T) {
	d := Default()
	require.Equal(t, "127.0.0.1:4317", d.GRPC)
	require.Equal(t, "127.0.0.1:4318", d.HTTP)
	require.Equal(t, "/v1/traces", pathTraces)
	require.Equal(t, 16<<20, d.MaxRequestBytes, "OTLP recommends 64 MiB; docs/OTLP.md says why not")
}

// The SDK's exporters are let in by a certificate and a token over TLS, and are told
// where they are not.
func TestSDKOverTLSWithAToken(t *testing.T) {
	const token = "0123456789abcdef-of-a-test"
	a := securetest.New(t)
	files := secure.ServerFiles{ClientCA: a.CA}
	files.Cert, files.Key = a.Issue(t, "server")
	cfg := local()
	var err error
	cfg.TLS, err = files.Config(nil)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(name, []byte(token), 0o600))
	cfg.Tokens, err = secure.OpenTokens(name, nil)
	require.NoError(t, err)
	var p fake
	r := start(t, cfg, &p)
	mine := secure.ClientFiles{CA: a.CA}
	mine.Cert, mine.Key = a.Issue(t, "router")
	trusts, err := mine.Config()
	require.NoError(t, err)
	for _, c := range []struct{ header, refused string }{{"Bearer " + token, ""}, {"Bearer another-token-012345", "token that this collector takes"}, {"", "token that this collector takes"}} {
		for name, e := range secureExporters(t, r, trusts, map[string]string{"Authorization": c.header}) {
			err := exportParts(t, e, part(1))
			if c.refused == "" {
				require.NoError(t, err, name)
				continue
			}
			require.ErrorContains(t, err, c.refused, name)
			require.NotContains(t, err.Error(), token)
		}
	}
	_, parts, _ := p.seen()
	require.Equal(t, 2, parts, "one a protocol")
	for name, e := range secureExporters(t, r, &tls.Config{RootCAs: trusts.RootCAs}, map[string]string{"Authorization": "Bearer " + token}) {
		require.Error(t, exportParts(t, e, part(1)), "%s without a certificate", name)
	}
}

func secureExporters(t *testing.T, r *Receiver, c *tls.Config, headers map[string]string) map[string]sdktrace.SpanExporter {
	g, err := otlptracegrpc.New(t.Context(), otlptracegrpc.WithEndpoint(r.GRPCAddr()), otlptracegrpc.WithTLSCredentials(credentials.NewTLS(c.Clone())),
		otlptracegrpc.WithTimeout(patience), otlptracegrpc.WithHeaders(headers), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}), otlptracegrpc.WithCompressor("gzip"))
	require.NoError(t, err)
	h, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpoint(r.HTTPAddr()), otlptracehttp.WithTLSClientConfig(c.Clone()),
		otlptracehttp.WithTimeout(patience), otlptracehttp.WithHeaders(headers), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	require.NoError(t, err)
	return map[string]sdktrace.SpanExporter{"grpc": g, "http": h}
}

// Whoever shows no token is refused before anything is read, with the codes that
// both protocols have for it.
func TestWithoutATokenNothingIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(name, []byte("0123456789abcdef"), 0o600))
	cfg := local()
	var err error
	cfg.Tokens, err = secure.OpenTokens(name, nil)
	require.NoError(t, err)
	r := start(t, cfg, new(fake))
	a, body := post(t, r, pathTraces, typeProtobuf, "", []byte("hello"))
	require.Equal(t, http.StatusUnauthorized, a.StatusCode)
	require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
	checkBody(t, http.StatusUnauthorized, typeProtobuf, body)
	_, err = export(t, dial(t, r), []byte("hello"))
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	authorized := grpc.PerRPCCredentials(perCall("Bearer 0123456789abcdef"))
	_, err = export(t, dial(t, r), nil, authorized)
	require.NoError(t, err)
}

type perCall string

func (p perCall) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": string(p)}, nil
}
func (perCall) RequireTransportSecurity() bool { return false }
