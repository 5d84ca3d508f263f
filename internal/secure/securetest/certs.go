// Package securetest makes certificates for tests.
package securetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority signs certificates for 127.0.0.1 and localhost.
type Authority struct {
	CA  string // PEM file
	dir string
	key *ecdsa.PrivateKey
	ca  *x509.Certificate
}

// New makes an authority in a directory of the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	a.CA = filepath.Join(a.dir, "ca.pem")
	a.key = newKey(t)
	a.ca = a.sign(t, a.CA, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test authority"}}, nil, a.key)
	return a
}

// Issue writes a certificate of that name and its key, and gives the files. The
// same name again replaces them.
func (a *Authority) Issue(t testing.TB, name string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	k := newKey(t)
	a.sign(t, cert, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.ca, k)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	write(t, key, "PRIVATE KEY", der)
	return cert, key
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *Authority) sign(t testing.TB, file string, c, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	c.SerialNumber, c.NotBefore, c.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, a.key)
	require.NoError(t, err)
	write(t, file, "CERTIFICATE", der)
	out, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return out
}

func write(t testing.TB, file, kind string, der []byte) {
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}
