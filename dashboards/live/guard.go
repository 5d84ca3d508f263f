package live

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// policy lets the page have its style and script from this server, ask this
// server again, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard holds what all answers have in common.
func (p *page) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !p.knows(r.Host):
			http.Error(w, "this page is not here under the name "+strconv.Quote(r.Host)+": ask for it by 127.0.0.1 or localhost, or add the name to page.hosts", http.StatusMisdirectedRequest)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this page only reads: send GET", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knows says that the Host of a request is one by which the page may be asked
// for: an address of the loopback, localhost, or one that was configured. The
// port does not matter, for it may be forwarded.
func (p *page) knows(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return host == "localhost" || slices.ContainsFunc(p.Hosts, func(s string) bool { return strings.EqualFold(s, host) })
}
