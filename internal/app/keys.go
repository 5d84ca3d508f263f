package app

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// readPublicKeys reads the keys that a coefficient document may be signed by.
func readPublicKeys(path string) ([]ed25519.PublicKey, error) {
	if path == "" {
		return nil, fmt.Errorf("no public key: give --public-key FILE (kvwhatif serve keeps calibrate.pub in its --dir, and gives it out at /v1/keys)")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	keys, err := coefficients.ParsePublicKeys(raw)
	if err != nil {
		return nil, fmt.Errorf("public key %s: %w", path, err)
	}
	return keys, nil
}

// publicKeys is what the demo's documents are signed with.
func (d *demo) publicKeys() ([]ed25519.PublicKey, error) {
	path := d.settings.Calibrate.Key
	if path == "" {
		path = d.dir.Join(keyFile)
	}
	return readPublicKeys(strings.TrimSuffix(path, filepath.Ext(path)) + ".pub")
}
