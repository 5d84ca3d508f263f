package coefficients

import (
	"bytes"
	_ "embed"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is the JSON Schema (draft 2020-12) of the document, for programs in
// other languages.
//
//go:embed document.schema.json
var Schema []byte

const schemaName = "kvwhatif-coefficients.schema.json"

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	form, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		return nil, fmt.Errorf("read the JSON Schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schemaName, form); err != nil {
		return nil, fmt.Errorf("add the JSON Schema: %w", err)
	}
	return c.Compile(schemaName)
})

// Validate holds payload against Schema. It is for who publishes: a field that is
// misspelt is an error here, where Decode would pass over it.
func Validate(payload []byte) error {
	form, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("read coefficient document: %w", err)
	}
	if err := form.Validate(value); err != nil {
		return fmt.Errorf("coefficient document against its JSON Schema: %w", err)
	}
	return nil
}
