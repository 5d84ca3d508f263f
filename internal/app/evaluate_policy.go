package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gopkg.in/yaml.v3"

	"github.com/kvwhatif/kvwhatif/replay/evaluate"
	"github.com/kvwhatif/kvwhatif/schema"
	"github.com/kvwhatif/kvwhatif/schema/coefficients"
)

// PolicySchema is the JSON Schema of a policy file.
func PolicySchema() string { return string(evaluate.PolicySchema) }

// DefaultFeedbackLimit is the change of load above which single requests do not
// answer for a policy.
const DefaultFeedbackLimit = evaluate.DefaultFeedbackLimit

// readPolicy reads a policy file, YAML or JSON, and the coefficient document that it
// names, which lies beside it.
func readPolicy(path string) (*evaluate.Policy, error) {
	if path == "" {
		return nil, errors.New("no policy: give --policy FILE, such as one that holds \"kind: never\"; `kvwhatif evaluate schema` prints what a file may say")
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	var any map[string]any
	if err := yaml.Unmarshal(raw, &any); err != nil {
		return nil, fmt.Errorf("policy %s is neither YAML nor JSON: %w", path, err)
	}
	plain, err := json.Marshal(any)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	p, err := evaluate.ParsePolicy(plain)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; `kvwhatif evaluate schema` prints what a file may say", path, err)
	}
	if p.Coefficients == "" {
		return p, nil
	}
	at := p.Coefficients
	if !filepath.IsAbs(at) {
		at = filepath.Join(filepath.Dir(path), at)
	}
	p.Document, err = documentIn(at)
	return p, err
}

// documentIn reads the file of a coefficient document; whoever gives it vouches for
// it.
func documentIn(path string) (*schema.Document, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read coefficients: %w: write them by `kvwhatif coefficients get --raw > FILE`", err)
	}
	d, err := coefficients.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("coefficients %s: %w", path, err)
	}
	return &d, nil
}
