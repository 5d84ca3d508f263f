package secure

import (
	"context"
	"net/http"
	"slices"
)

// Guard lets in who shows a token, and everybody to the paths in open. What is
// refused is answered 401 (RFC 6750, 3).
func (t *Tokens) Guard(h http.Handler, open ...string) http.Handler {
	if t == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if t.Allow(q.Header.Get("Authorization")) || slices.Contains(open, q.URL.Path) {
			h.ServeHTTP(w, q)
			return
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"send Authorization: Bearer TOKEN with a token that this server takes"}` + "\n"))
	})
}

// Transport shows the token of Source to one server, and not to where that may
// redirect. A nil Base is Go's default.
type Transport struct {
	Base         http.RoundTripper
	Source       *Source
	Scheme, Host string // of the server's URL
}

// RoundTrip is of http.RoundTripper.
func (t Transport) RoundTrip(q *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if header := t.Source.Header(); header != "" && q.URL.Scheme == t.Scheme && q.URL.Host == t.Host {
		q = q.Clone(q.Context())
		q.Header.Set("Authorization", header)
	}
	return base.RoundTrip(q)
}

// PerRPC shows the token of Source with every call of gRPC: it is a
// credentials.PerRPCCredentials. Whether the connection is safe is for who dials.
type PerRPC struct{ Source *Source }

// GetRequestMetadata is of credentials.PerRPCCredentials.
func (p PerRPC) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": p.Source.Header()}, nil
}

// RequireTransportSecurity is of credentials.PerRPCCredentials.
func (PerRPC) RequireTransportSecurity() bool { return false }
