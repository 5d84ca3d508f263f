package coefficients

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"

	"github.com/kvwhatif/kvwhatif/schema"
)

// SignatureHeader carries, over HTTP, the detached JWS of the body.
const SignatureHeader = "Kvwhatif-Signature"

// ErrSignature is wrapped by every refusal of a signature.
var ErrSignature = errors.New("signature of the coefficient document does not verify")

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Sign gives the detached JWS (RFC 7515 appendix F; EdDSA, RFC 8037) over the
// exact bytes of payload. Its header holds the KeyID.
func Sign(payload []byte, key ed25519.PrivateKey) (string, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok || len(key) != ed25519.PrivateKeySize {
		return "", fmt.Errorf("sign coefficient document: not an Ed25519 key")
	}
	opts := (&jose.SignerOptions{}).WithHeader(jose.HeaderKey("kid"), KeyID(public))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, opts)
	if err != nil {
		return "", fmt.Errorf("sign coefficient document: %w", err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign coefficient document: %w", err)
	}
	return signed.DetachedCompactSerialize()
}

// Verify checks a detached JWS over payload against each of keys, of which one is
// enough: two while a key is being replaced.
func Verify(payload []byte, signature string, keys ...ed25519.PublicKey) error {
	if len(keys) == 0 {
		return fmt.Errorf("%w: no public key is configured", ErrSignature)
	}
	parsed, err := jose.ParseDetached(signature, payload, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		return fmt.Errorf("%w: %v", ErrSignature, err)
	}
	for _, key := range keys {
		if len(key) == ed25519.PublicKeySize && parsed.DetachedVerify(payload, key) == nil {
			return nil
		}
	}
	return fmt.Errorf("%w: not by any of the %d keys known here", ErrSignature, len(keys))
}

// Open verifies s, then decodes it. No field is looked at before the signature.
func Open(s schema.SignedDocument, keys ...ed25519.PublicKey) (schema.Document, error) {
	if err := Verify(s.Payload, s.Signature, keys...); err != nil {
		return schema.Document{}, err
	}
	return Decode(s.Payload)
}

// Seal marshals, validates and signs d.
func Seal(d schema.Document, key ed25519.PrivateKey) (schema.SignedDocument, error) {
	payload, err := Marshal(d)
	if err != nil {
		return schema.SignedDocument{}, err
	}
	if err := Validate(payload); err != nil {
		return schema.SignedDocument{}, err
	}
	signature, err := Sign(payload, key)
	if err != nil {
		return schema.SignedDocument{}, err
	}
	return schema.SignedDocument{Payload: payload, Signature: signature}, nil
}

// PublicKeyPEM writes key as a PEM block (PKIX), as openssl does.
func PublicKeyPEM(key ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("write public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// ParsePublicKeys reads every Ed25519 public key of a PEM text.
func ParsePublicKeys(text []byte) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read public key: %w", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("read public key: %T is not Ed25519", parsed)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read public key: no PEM block of type PUBLIC KEY")
	}
	return keys, nil
}
