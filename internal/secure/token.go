package secure

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
)

// minToken is the least length of a token, bytes: a shorter one can be guessed.
const minToken = 16

// Tokens are the bearer tokens that a server takes, one a line of a file. Lines
// that begin with # and empty ones are left out. A file that changes is read again
// within a second of a request. A nil *Tokens takes everybody.
type Tokens struct{ file *watched[[][sha256.Size]byte] }

// OpenTokens reads a file of tokens; "" gives nil. An error names lines, never
// what is in them.
func OpenTokens(file string, onErr func(error)) (*Tokens, error) {
	if file == "" {
		return nil, nil
	}
	w, err := watch([]string{file}, onErr, func() ([][sha256.Size]byte, error) { return readTokens(file) })
	if err != nil {
		return nil, err
	}
	return &Tokens{w}, nil
}

func readTokens(file string) (out [][sha256.Size]byte, err error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the tokens: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	for n := 1; lines.Scan(); n++ {
		token := strings.TrimSpace(lines.Text())
		if token == "" || token[0] == '#' {
			continue
		}
		if err := check(token); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", file, n, err)
		}
		out = append(out, sha256.Sum256([]byte(token)))
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("read the tokens of %s: %w", file, lines.Err())
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s holds no token: write one a line, such as of `openssl rand -hex 32`", file)
	}
	return out, nil
}

// check says what is wrong with a token without telling it.
func check(token string) error {
	if len(token) < minToken {
		return fmt.Errorf("a token of %d characters is too short: take %d or more, such as of `openssl rand -hex 32`", len(token), minToken)
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return errors.New("a token has letters, digits and signs only: no blanks between")
		}
	}
	return nil
}

// Allow says whether authorization, the header of that name, carries one of the
// tokens (RFC 6750, 2.1). How long it takes does not depend on which.
func (t *Tokens) Allow(authorization string) bool {
	if t == nil {
		return true
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := 0
	for _, known := range t.file.get() {
		found |= subtle.ConstantTimeCompare(sum[:], known[:])
	}
	return found == 1 && strings.EqualFold(scheme, "Bearer")
}

// Source gives the token that a client shows, read again when its file changes.
// A nil *Source gives none.
type Source struct {
	text string
	file *watched[string]
}

// OpenSource takes the token itself, or the file that it is in; nil of neither.
func OpenSource(token, file string) (*Source, error) {
	switch {
	case token != "" && file != "":
		return nil, errors.New("a token and a file of it are both given: give one")
	case token != "":
		return &Source{text: token}, check(token)
	case file == "":
		return nil, nil
	}
	w, err := watch([]string{file}, nil, func() (string, error) {
		body, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		token := strings.TrimSpace(string(body))
		if err := check(token); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		return token, nil
	})
	if err != nil {
		return nil, err
	}
	return &Source{file: w}, nil
}

// Header is the value of the header Authorization, or "".
func (s *Source) Header() string {
	switch {
	case s == nil:
		return ""
	case s.file != nil:
		return "Bearer " + s.file.get()
	}
	return "Bearer " + s.text
}

// InTheClear says that a token sent to this URL could be read on the way.
func InTheClear(address string) bool {
	u, err := url.Parse(address)
	return err != nil || u.Scheme != "https" && !Loopback(u.Host)
}

// Loopback says that HOST or HOST:PORT is this machine only.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
