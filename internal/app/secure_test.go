package app

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/kvwhatif/kvwhatif/calibrate/client"
	"github.com/kvwhatif/kvwhatif/collector/extract"
	"github.com/kvwhatif/kvwhatif/collector/otlp"
	"github.com/kvwhatif/kvwhatif/internal/secure"
	"github.com/kvwhatif/kvwhatif/internal/secure/securetest"
	"github.com/kvwhatif/kvwhatif/schema"
)

const token = "0123456789abcdef-of-a-test"

// door is the settings of servers with TLS, client certificates and a token, and
// those of a sender that they let in.
func door(t *testing.T) (*Settings, SenderSettings) {
	t.Helper()
	a := securetest.New(t)
	s := DefaultSettings()
	s.TLS.Cert, s.TLS.Key = a.Issue(t, "server")
	s.TLS.ClientCA = a.CA
	s.Tokens = filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(s.Tokens, []byte("another-token-0123456\n"+token+"\n"), 0o600))
	require.NoError(t, s.openDoor(quiet()))
	sender := SenderSettings{TLS: true, CA: a.CA, Token: token}
	sender.Cert, sender.Key = a.Issue(t, "sender")
	require.NoError(t, sender.Validate())
	return &s, sender
}

// accepts is a Publisher that takes everything.
type accepts struct{}

func (accepts) Publish(context.Context, *extract.Result) error { return nil }

// Replays reach a collector behind TLS and a token, and nobody else does.
func TestSenderIsLetIn(t *testing.T) {
	s, sender := door(t)
	cfg := s.Collect
	cfg.GRPC, cfg.HTTP = "127.0.0.1:0", otlp.None
	r := otlp.New(cfg, accepts{}, quiet())
	require.NoError(t, r.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, r.Shutdown(context.WithoutCancel(t.Context()))) })
	send := func(s SenderSettings) error {
		exporter, err := newExporter(t.Context(), s, r.GRPCAddr(), time.Second)
		require.NoError(t, err)
		e := &legEmitter{exporter: exporter, log: quiet()}
		e.provider = newProvider("test", sdktrace.WithSpanProcessor(e))
		defer func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) }()
		return e.Emit(t.Context(), schema.Part{Kind: schema.KindContract, StartNanos: time.Now().UnixNano()})
	}
	require.NoError(t, send(sender))
	wrong := sender
	wrong.Token = "fedcba9876543210-of-a-test"
	require.ErrorContains(t, send(wrong), "Unauthenticated")
	wrong.Token = ""
	require.ErrorContains(t, send(wrong), "Unauthenticated")
	wrong = sender
	wrong.Cert, wrong.Key = "", ""
	require.Error(t, send(wrong))
	require.Error(t, send(SenderSettings{Token: token}), "without TLS")
}

// A coordinator follows a coefficient server behind TLS and a token; only /healthz
// is open to who has a certificate and no token.
func TestCoordinatorIsLetIn(t *testing.T) {
	s, sender := door(t)
	p := newProcess(t.Context(), "test", quiet())
	asked := make(chan string, 64)
	at, err := p.serveTLS("127.0.0.1:0", guard(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.URL.Path
		w.WriteHeader(http.StatusServiceUnavailable)
	}), s.Collect.Tokens), s.Collect.TLS)
	require.NoError(t, err)
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	cfg := client.Config{URL: "https://" + at, PublicKeys: []ed25519.PublicKey{public}, Fallback: defaultFallback(),
		CAFile: sender.CA, CertFile: sender.Cert, KeyFile: sender.Key, Token: sender.Token}
	c, err := client.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	c.Start(ctx)
	require.Equal(t, "/v1/coefficients", <-asked)
	cancel()
	<-c.Done()

	files, err := secure.ClientFiles{CA: sender.CA, Cert: sender.Cert, Key: sender.Key}.Config()
	require.NoError(t, err)
	bare := &http.Client{Transport: &http.Transport{TLSClientConfig: files}}
	defer bare.CloseIdleConnections()
	for path, want := range map[string]int{"/healthz": http.StatusServiceUnavailable, "/v1/coefficients": http.StatusUnauthorized} {
		a, err := bare.Get("https://" + at + path)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, a.Body)
		a.Body.Close()
		require.Equal(t, want, a.StatusCode, path)
	}
}

// A token is not sent where others can read it.
func TestTokensStayOutOfTheClear(t *testing.T) {
	_, err := newExporter(t.Context(), SenderSettings{Token: token}, "collector:4317", time.Second)
	require.ErrorContains(t, err, "set sender.tls")
	require.NotContains(t, err.Error(), token)
	_, err = newExporter(t.Context(), SenderSettings{CA: "ca.pem"}, "127.0.0.1:4317", time.Second)
	require.ErrorContains(t, err, "set sender.tls too")
	public, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	_, err = client.New(client.Config{URL: "http://serve:9470", PublicKeys: []ed25519.PublicKey{public}, Fallback: defaultFallback(), Token: token})
	require.ErrorContains(t, err, "use https")
	require.NotContains(t, err.Error(), token)
}

func TestSenderSettingsAreChecked(t *testing.T) {
	for want, s := range map[string]SenderSettings{
		"give one": {Token: token, TokenFile: "f"}, "too short": {Token: "short"}, "no such file": {TLS: true, CA: "none.pem"},
	} {
		require.ErrorContains(t, s.Validate(), want)
	}
}

// Who listens beyond this machine is told what that opens.
func TestOpenDoorsAreWarnedOf(t *testing.T) {
	s, _ := door(t)
	plain := DefaultSettings()
	for _, c := range []struct {
		address string
		s       *Settings
		want    string
	}{
		{"127.0.0.1:4317", &plain, ""}, {"[::1]:4317", &plain, ""}, {"", &plain, ""},
		{"0.0.0.0:4317", &plain, "OPEN TO EVERYBODY"}, {"[::]:4317", &plain, "OPEN TO EVERYBODY"}, {"0.0.0.0:4317", s, ""},
	} {
		var out bytes.Buffer
		warnOpen(slog.New(slog.NewTextHandler(&out, nil)), "OTLP/gRPC", c.address, c.s.Collect.TLS, c.s.Collect.Tokens)
		if c.want == "" {
			require.Empty(t, out.String(), c.address)
			continue
		}
		require.Contains(t, out.String(), c.want, c.address)
	}
	var out bytes.Buffer
	warnOpen(slog.New(slog.NewTextHandler(&out, nil)), "x", "0.0.0.0:1", nil, s.Collect.Tokens)
	require.Contains(t, out.String(), "IN THE CLEAR")
}
