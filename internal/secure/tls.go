package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// ServerFiles are PEM files of a server. Without Cert there is no TLS.
type ServerFiles struct {
	Cert     string `koanf:"cert"`      // certificate chain
	Key      string `koanf:"key"`       // private key of the certificate
	ClientCA string `koanf:"client_ca"` // authorities of client certificates, which are then required
}

// Config is the TLS configuration of a server, at least TLS 1.2; nil without
// Cert. Files that change are read again within a second of a handshake; where
// that fails the last good ones stay and onErr, which may be nil, is told.
func (f ServerFiles) Config(onErr func(error)) (*tls.Config, error) {
	if f.Cert == "" && f.Key == "" && f.ClientCA == "" {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs both a certificate and its key: give both files")
	}
	files, err := watch([]string{f.Cert, f.Key, f.ClientCA}, onErr, f.load)
	if err != nil {
		return nil, err
	}
	outer := files.get().Clone() // what a server copies; a handshake asks for the present one
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.get(), nil }
	return outer, nil
}

// load reads the files as they are.
func (f ServerFiles) load() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("load the TLS certificate %s with its key: %w", f.Cert, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	if f.ClientCA != "" {
		if c.ClientCAs, err = pool(f.ClientCA); err != nil {
			return nil, err
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// ClientFiles are PEM files of a client. The zero value trusts the system's
// authorities and shows no certificate.
type ClientFiles struct {
	CA   string `koanf:"ca"`   // authorities of the server; empty: the system's
	Cert string `koanf:"cert"` // certificate chain of this client, for servers that ask
	Key  string `koanf:"key"`  // private key of Cert
}

// Config is the TLS configuration of a client, at least TLS 1.2. A certificate of
// the client that changes is read again.
func (f ClientFiles) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if f.CA != "" {
		if c.RootCAs, err = pool(f.CA); err != nil {
			return nil, err
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("a client certificate needs its key: give both files")
	}
	if f.Cert == "" {
		return c, nil
	}
	files, err := watch([]string{f.Cert, f.Key}, nil, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate %s with its key: %w", f.Cert, err)
		}
		return &pair, nil
	})
	if err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return files.get(), nil }
	return c, nil
}

func pool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities: %w", err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return p, nil
}
