package publish

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// LoadOrCreateKey reads the Ed25519 private key at path (PEM, PKCS #8), or makes
// one there, mode 0600. Two processes that begin at once get the same key. A key
// that others can read is refused.
func LoadOrCreateKey(path string) (ed25519.PrivateKey, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("create signing key: %w", err)
	}
	return LoadKey(path)
}

// LoadKey reads the Ed25519 private key at path. An error wraps fs.ErrNotExist
// where there is none.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("signing key %s has mode %04o: others can read it; chmod 600 it, and replace it if it was seen", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("signing key %s has no PEM block", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("signing key %s is %T, not Ed25519", path, parsed)
	}
	return key, nil
}

// createKey writes the whole file before it gets its name, and never over another.
func createKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := writeTemp(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	return os.Link(tmp, path)
}

// WritePublicKey writes key as PEM to path, mode 0644, for those who verify; a
// file that is there is replaced whole.
func WritePublicKey(path string, key ed25519.PublicKey) error {
	text, err := coefficients.PublicKeyPEM(key)
	if err != nil {
		return err
	}
	tmp, err := writeTemp(path, text)
	if err != nil {
		return fmt.Errorf("write public key: %w", err)
	}
	if err := errors.Join(os.Chmod(tmp, 0o644), os.Rename(tmp, path)); err != nil {
		os.Remove(tmp)
		return fmt.Errorf("write public key: %w", err)
	}
	return nil
}

// writeTemp writes text to a file beside path, mode 0600, and gives its name.
func writeTemp(path string, text []byte) (string, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return "", err
	}
	_, err = tmp.Write(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		os.Remove(tmp.Name())
		return "", err
	}
	return tmp.Name(), nil
}
