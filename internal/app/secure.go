package app

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/kvwhatif/kvwhatif/internal/secure"
)

// SenderSettings is how this process speaks to a collector or a coefficient server
// that is not in it.
type SenderSettings struct {
	TLS       bool   `koanf:"tls"` // of OTLP/gRPC; a URL says it by https
	CA        string `koanf:"ca"`
	Cert      string `koanf:"cert"`
	Key       string `koanf:"key"`
	Token     string `koanf:"token" secret:"true"` // bearer token
	TokenFile string `koanf:"token_file"`          // PEM files are ca, cert and key; this one holds the token
}

func (s SenderSettings) files() secure.ClientFiles {
	return secure.ClientFiles{CA: s.CA, Cert: s.Cert, Key: s.Key}
}

// Validate says what is wrong with the files.
func (s SenderSettings) Validate() error {
	if _, err := s.files().Config(); err != nil {
		return fmt.Errorf("sender: %w", err)
	}
	if _, err := secure.OpenSource(s.Token, s.TokenFile); err != nil {
		return fmt.Errorf("sender.token or sender.token_file: %w", err)
	}
	return nil
}

// otlp gives the exporter's options for an address.
func (s SenderSettings) otlp(endpoint string) ([]otlptracegrpc.Option, error) {
	out := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(endpoint)}
	if s.TLS {
		c, err := s.files().Config()
		if err != nil {
			return nil, fmt.Errorf("sender: %w", err)
		}
		out = append(out, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(c)))
	} else {
		if s.CA+s.Cert != "" {
			return nil, errors.New("sender.ca or sender.cert is given, and spans would go without TLS: set sender.tls too")
		}
		out = append(out, otlptracegrpc.WithInsecure())
	}
	token, err := secure.OpenSource(s.Token, s.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("sender.token or sender.token_file: %w", err)
	}
	if token == nil {
		return out, nil
	}
	if !s.TLS && !secure.Loopback(endpoint) {
		return nil, fmt.Errorf("the token would be sent to %s for everybody on the way to read: set sender.tls", endpoint)
	}
	return append(out, otlptracegrpc.WithDialOption(grpc.WithPerRPCCredentials(secure.PerRPC{Source: token}))), nil
}

// openDoor makes TLS and tokens out of the files that the settings name, for the
// servers of this process.
func (s *Settings) openDoor(log *slog.Logger) error {
	again := func(what string) func(error) {
		return func(err error) {
			log.Error("a changed file can not be used, the last good one still is", "of", what, "error", err)
		}
	}
	var err error
	if s.Collect.TLS, err = s.TLS.Config(again("tls")); err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	if s.Collect.Tokens, err = secure.OpenTokens(s.Tokens, again("tokens")); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// warnOpen says loudly that others can come in who should perhaps not.
func warnOpen(log *slog.Logger, what, address string, encrypted *tls.Config, tokens *secure.Tokens) {
	if address == "" || secure.Loopback(address) {
		return
	}
	known := tokens != nil || encrypted != nil && encrypted.ClientAuth == tls.RequireAndVerifyClientCert
	switch {
	case encrypted == nil && !known:
		log.Warn("OPEN TO EVERYBODY: listening beyond this machine without TLS and without tokens; set tls.cert, tls.key and tokens",
			"server", what, "address", address)
	case encrypted == nil:
		log.Warn("IN THE CLEAR: listening beyond this machine without TLS, so tokens and spans can be read on the way; set tls.cert and tls.key",
			"server", what, "address", address)
	case !known:
		log.Warn("OPEN TO EVERYBODY: listening beyond this machine without tokens or client certificates; set tokens or tls.client_ca",
			"server", what, "address", address)
	}
}

// guard lets in who shows a token. /healthz tells nothing, and is left to probes.
func guard(h http.Handler, tokens *secure.Tokens) http.Handler {
	return tokens.Guard(h, "/healthz")
}
