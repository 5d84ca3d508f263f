package plugin

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/grafana/grafana-plugin-sdk-go/backend"
)

// Limits of an answer.
const (
	defaultRows    = 100_000
	maxRows        = 1_000_000
	defaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	maxTextBytes   = 64 << 20 // of all texts of one answer
)

// Settings are the options of a data source. Secrets come from secureJsonData
// only, and are never among those that Grafana gives to a browser.
type Settings struct {
	Protocol      string `json:"protocol"`      // "http" (default; the embedded database speaks only this) or "native"
	Host          string `json:"host"`          // name or address, without a port
	Port          int    `json:"port"`          // 0: the usual one of the protocol
	Secure        bool   `json:"secure"`        // TLS
	TLSSkipVerify bool   `json:"tlsSkipVerify"` // take any certificate
	ServerName    string `json:"serverName"`    // name in the certificate, where it is not the host
	Database      string `json:"database"`      // "": kvwhatif
	Username      string `json:"username"`      // "": default
	RowLimit      int    `json:"rowLimit"`      // rows of one answer; 0: 100,000
	Timeout       int    `json:"timeout"`       // seconds of one query; 0: 30

	password, ca, cert, key string
}

// secrets that may stand in secureJsonData.
var secrets = []string{"password", "tlsCACert", "tlsClientCert", "tlsClientKey"}

// Load reads and checks the settings of a data source; an error says what to
// change on its page.
func Load(s backend.DataSourceInstanceSettings) (Settings, error) {
	var out Settings
	raw := map[string]json.RawMessage{}
	if len(s.JSONData) > 0 {
		if err := json.Unmarshal(s.JSONData, &raw); err != nil {
			return out, fmt.Errorf("the settings of the data source cannot be read: %w", err)
		}
		if err := json.Unmarshal(s.JSONData, &out); err != nil {
			return out, fmt.Errorf("the settings of the data source cannot be read: %w", err)
		}
	}
	for _, name := range secrets {
		if _, open := raw[name]; open {
			return out, fmt.Errorf("%s stands in jsonData, where everybody who may look at the data source can read it: move it to secureJsonData", name)
		}
	}
	secure := s.DecryptedSecureJSONData
	out.password, out.ca, out.cert, out.key = secure["password"], secure["tlsCACert"], secure["tlsClientCert"], secure["tlsClientKey"]
	return out.complete()
}

// complete fills in defaults and says what can not be.
func (s Settings) complete() (Settings, error) {
	if s.Protocol == "" {
		s.Protocol = "http"
	}
	if s.Database == "" {
		s.Database = "kvwhatif"
	}
	if s.RowLimit == 0 {
		s.RowLimit = defaultRows
	}
	if s.Timeout == 0 {
		s.Timeout = int(defaultTimeout / time.Second)
	}
	if s.Port == 0 {
		s.Port = map[string]int{"httpfalse": 8123, "httptrue": 8443, "nativefalse": 9000, "nativetrue": 9440}[s.Protocol+strconv.FormatBool(s.Secure)]
	}
	switch {
	case s.Protocol != "http" && s.Protocol != "native":
		return s, fmt.Errorf("protocol %q is not known: choose http or native", s.Protocol)
	case s.Host == "":
		return s, errors.New("no host is named: give the name or address of the ClickHouse server")
	case strings.ContainsAny(s.Host, "/@ ") || strings.Count(s.Host, ":") == 1:
		return s, fmt.Errorf("host %q is not a name or an address: leave out the protocol, the port and the path, which have fields of their own", s.Host)
	case s.Port < 1 || s.Port > 65535:
		return s, fmt.Errorf("port %d is out of range: choose 1 to 65535", s.Port)
	case s.RowLimit < 1 || s.RowLimit > maxRows:
		return s, fmt.Errorf("row limit %d is out of range: choose 1 to %d", s.RowLimit, maxRows)
	case s.Timeout < 1 || s.Timeout > int(maxTimeout/time.Second):
		return s, fmt.Errorf("timeout %d is out of range: choose 1 to %d seconds", s.Timeout, int(maxTimeout/time.Second))
	case !s.Secure && (s.ca != "" || s.cert != "" || s.key != ""):
		return s, errors.New("certificates are given and TLS is off: switch it on, or remove them")
	}
	return s, nil
}

// timeout is that of one query.
func (s Settings) timeout() time.Duration { return time.Duration(s.Timeout) * time.Second }

// options are those of the driver.
func (s Settings) options() (*ch.Options, error) {
	o := &ch.Options{
		Protocol:     ch.Native,
		Addr:         []string{net.JoinHostPort(strings.Trim(s.Host, "[]"), strconv.Itoa(s.Port))},
		Auth:         ch.Auth{Database: s.Database, Username: s.Username, Password: s.password},
		DialTimeout:  5 * time.Second,
		ReadTimeout:  s.timeout() + 5*time.Second,
		MaxOpenConns: 16,
		MaxIdleConns: 8,
		Compression:  &ch.Compression{Method: ch.CompressionLZ4},
	}
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"kvwhatif-datasource", "1"})
	if s.Protocol == "http" {
		o.Protocol = ch.HTTP
	}
	if !s.Secure {
		return o, nil
	}
	var err error
	o.TLS, err = s.tls()
	return o, err
}

func (s Settings) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName, InsecureSkipVerify: s.TLSSkipVerify}
	if s.ca != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(s.ca)) {
			return nil, errors.New("the CA certificate is no PEM certificate: paste the whole file, with its BEGIN and END lines")
		}
	}
	if (s.cert == "") != (s.key == "") {
		return nil, errors.New("a client certificate needs its key, and a key its certificate: give both")
	}
	if s.cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.cert), []byte(s.key))
		if err != nil {
			return nil, fmt.Errorf("the client certificate and its key do not fit: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
