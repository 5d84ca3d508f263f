package ddl

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// first are the objects as the first kvwhatif made them.
func first(t *testing.T) []Object {
	entries, err := os.ReadDir("testdata/first")
	require.NoError(t, err)
	objects := make([]Object, 0, len(entries))
	for _, e := range entries {
		body, err := os.ReadFile("testdata/first/" + e.Name())
		require.NoError(t, err)
		m := fileName.FindStringSubmatch(e.Name())
		objects = append(objects, Object{Version: len(objects) + 1, Name: m[2], SQL: string(body)})
	}
	return objects
}

func TestChangesLeadOnFromTheFirstTables(t *testing.T) {
	now := Objects()
	for i, o := range first(t) {
		require.Equal(t, now[i].Name, o.Name, "objects are not renamed, nor taken away")
		if o.Digest() != now[i].Digest() {
			require.True(t, o.Earlier(o.Digest()), "changes/earlier.txt lacks %q", fmt.Sprintf("%04d_%s %s", o.Version, o.Name, o.Digest()))
		}
	}
	require.False(t, now[0].Earlier("0123456789abcdef"))
}

func TestChangesCanBeRepeated(t *testing.T) {
	require.NotEmpty(t, Changes())
	for _, c := range Changes() {
		require.True(t, strings.HasPrefix(c.SQL, "--"), "%s does not say why", c.Name)
		require.NotEmpty(t, c.Statements())
		for _, s := range c.Statements() {
			require.Regexp(t, `^(ALTER TABLE \w+|CREATE TABLE IF NOT EXISTS \w+|CREATE OR REPLACE VIEW \w+)\s`, s)
			require.NotRegexp(t, `(ADD|DROP|RENAME) COLUMN [^I]`, s, "%s: write IF [NOT] EXISTS", c.Name)
			require.NotContains(t, s, "'--", "a comment sign in a string would be cut")
		}
	}
}
