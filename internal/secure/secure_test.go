package secure

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvwhatif/kvwhatif/internal/secure/securetest"
)

const secret = "0123456789abcdef0123456789abcdef"

func file(t *testing.T, body string) string {
	name := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(name, []byte(body), 0o600))
	return name
}

func TestTokensAllow(t *testing.T) {
	tokens, err := OpenTokens(file(t, "# of the routers\n"+secret+"\n\n  other-token-of-a-fleet \n"), nil)
	require.NoError(t, err)
	for header, want := range map[string]bool{
		"Bearer " + secret: true, "bearer  " + secret: true, "Bearer other-token-of-a-fleet": true,
		"": false, secret: false, "Basic " + secret: false, "Bearer": false, "Bearer ": false, "Bearer " + secret[1:]: false,
		"Bearer # of the routers": false, "Bearer " + secret + "x": false,
	} {
		require.Equal(t, want, tokens.Allow(header), header)
	}
	require.True(t, (*Tokens)(nil).Allow(""), "none are asked for")
}

func TestBadTokenFilesAreRefusedWithoutTellingThem(t *testing.T) {
	for body, want := range map[string]string{
		"":                           "holds no token",
		"# nothing\n":                "holds no token",
		"short-secret":               "line 1: a token of 12 characters is too short",
		secret + "\nsecret with gap": "line 2", // a blank inside
		secret + "\u00e9":            "letters, digits and signs only",
	} {
		_, err := OpenTokens(file(t, body), nil)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, err.Error(), "short-secret")
	}
	_, err := OpenTokens(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorContains(t, err, "read the tokens")
}

// A token is taken and no more taken as its file says, and a broken file changes
// nothing but is told.
func TestTokensAreReadAgain(t *testing.T) {
	name := file(t, secret)
	var told []error
	tokens, err := OpenTokens(name, func(err error) { told = append(told, err) })
	require.NoError(t, err)
	now := time.Now()
	tokens.file.now = func() time.Time { now = now.Add(2 * lookEvery); return now }
	const next = "the-next-token-of-the-fleet"
	require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	require.True(t, tokens.Allow("Bearer "+secret))
	require.NotEmpty(t, told)
	require.NoError(t, os.WriteFile(name, []byte(next), 0o600))
	require.True(t, tokens.Allow("Bearer "+next))
	require.False(t, tokens.Allow("Bearer "+secret))
	require.NoError(t, os.Remove(name))
	require.True(t, tokens.Allow("Bearer "+next), "a file that is gone opens nothing and closes nothing")
}

func TestSource(t *testing.T) {
	var none *Source
	require.Empty(t, none.Header())
	s, err := OpenSource("", "")
	require.NoError(t, err)
	require.Empty(t, s.Header())
	s, err = OpenSource(secret, "")
	require.NoError(t, err)
	require.Equal(t, "Bearer "+secret, s.Header())
	s, err = OpenSource("", file(t, secret+"\n"))
	require.NoError(t, err)
	require.Equal(t, "Bearer "+secret, s.Header())
	_, err = OpenSource(secret, "file")
	require.ErrorContains(t, err, "give one")
	_, err = OpenSource("", file(t, "short"))
	require.ErrorContains(t, err, "too short")
}

func TestInTheClear(t *testing.T) {
	for address, want := range map[string]bool{
		"https://h:1": false, "http://127.0.0.1:9": false, "http://localhost": false, "http://[::1]:9": false,
		"http://h:1": true, "http://0.0.0.0:1": true, "http://10.0.0.1": true,
	} {
		require.Equal(t, want, InTheClear(address), address)
	}
	require.False(t, Loopback(":4317"), "every address")
}

func TestServerFilesNeedEachOther(t *testing.T) {
	c, err := ServerFiles{}.Config(nil)
	require.NoError(t, err)
	require.Nil(t, c)
	cert, key := securetest.New(t).Issue(t, "server")
	_, otherKey := securetest.New(t).Issue(t, "server")
	for _, c := range []struct {
		files ServerFiles
		want  string
	}{
		{ServerFiles{Cert: cert}, "both"}, {ServerFiles{ClientCA: cert}, "both"},
		{ServerFiles{Cert: cert, Key: otherKey}, "does not match"}, {ServerFiles{Cert: cert, Key: key, ClientCA: key}, "no PEM certificate"},
		{ServerFiles{Cert: "none", Key: key}, "no such file"},
	} {
		_, err := c.files.Config(nil)
		require.ErrorContains(t, err, c.want)
	}
	_, err = ClientFiles{Cert: cert}.Config()
	require.ErrorContains(t, err, "both")
}

// server answers over TLS with the name of the client.
func server(t *testing.T, c *tls.Config) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		for _, c := range q.TLS.PeerCertificates[:min(1, len(q.TLS.PeerCertificates))] {
			_, _ = io.WriteString(w, c.Subject.CommonName)
		}
	}))
	s.Config.ErrorLog = nil
	s.TLS = c
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func get(t *testing.T, url string, f ClientFiles, change ...func(*tls.Config)) (*http.Response, string, error) {
	c, err := f.Config()
	require.NoError(t, err)
	for _, f := range change {
		f(c)
	}
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	a, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return nil, "", err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return a, string(body), err
}

// A client is let in by its certificate, and nobody without or with another's.
func TestMutualTLS(t *testing.T) {
	a := securetest.New(t)
	cert, key := a.Issue(t, "server")
	c, err := ServerFiles{cert, key, a.CA}.Config(nil)
	require.NoError(t, err)
	url := server(t, c)
	own, ownKey := a.Issue(t, "router-1")
	_, name, err := get(t, url, ClientFiles{a.CA, own, ownKey})
	require.NoError(t, err)
	require.Equal(t, "router-1", name)

	stranger, strangerKey := securetest.New(t).Issue(t, "router-1")
	for what, f := range map[string]ClientFiles{"no certificate": {CA: a.CA}, "a stranger's": {a.CA, stranger, strangerKey}, "an unknown server": {Cert: own, Key: ownKey}} {
		_, _, err = get(t, url, f)
		require.Error(t, err, what)
	}
	_, _, err = get(t, url, ClientFiles{a.CA, own, ownKey}, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 })
	require.ErrorContains(t, err, "protocol version")
}

// A renewed certificate is shown without a restart, and half of one is not.
func TestCertificatesAreReadAgain(t *testing.T) {
	a := securetest.New(t)
	cert, key := a.Issue(t, "server")
	var told []error
	files, err := watch([]string{cert, key}, func(err error) { told = append(told, err) }, ServerFiles{Cert: cert, Key: key}.load)
	require.NoError(t, err)
	now := time.Now()
	files.now = func() time.Time { now = now.Add(2 * lookEvery); return now }
	first := files.get()
	require.Same(t, first, files.get(), "nothing changed")
	require.NoError(t, os.WriteFile(cert, []byte("-----BEGIN CERT"), 0o600))
	require.Same(t, first, files.get())
	require.Len(t, told, 1)
	a.Issue(t, "server")
	second := files.get()
	require.NotEqual(t, first.Certificates[0].Certificate, second.Certificates[0].Certificate)
}

func TestHandshakeShowsThePresentCertificate(t *testing.T) {
	a := securetest.New(t)
	cert, key := a.Issue(t, "server")
	c, err := ServerFiles{Cert: cert, Key: key}.Config(nil)
	require.NoError(t, err)
	served, err := c.GetConfigForClient(nil)
	require.NoError(t, err)
	require.Equal(t, uint16(tls.VersionTLS12), served.MinVersion)
	require.Contains(t, strings.Join(served.NextProtos, " "), "h2")
}
