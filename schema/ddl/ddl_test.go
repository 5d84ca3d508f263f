package ddl

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestObjectsAreOneRepeatableStatementEach(t *testing.T) {
	objects := Objects()
	require.NotEmpty(t, objects)
	for _, o := range objects {
		body := comment.ReplaceAllString(o.SQL, "")
		require.Regexp(t, `CREATE (TABLE|VIEW) IF NOT EXISTS `+o.Name+`\b`, body, o.Name)
		require.NotContains(t, body, ";", o.Name)
		require.True(t, strings.HasPrefix(o.SQL, "--"), "%s does not say what it is", o.Name)
	}
}

func TestDigestIgnoresCommentsAndSpacing(t *testing.T) {
	a := Object{SQL: "-- one\nCREATE TABLE t (a  Int8) -- two\n"}
	b := Object{SQL: "CREATE TABLE t\n(a Int8)"}
	c := Object{SQL: "CREATE TABLE t (a Int16)"}
	require.Equal(t, b.Digest(), a.Digest())
	require.NotEqual(t, c.Digest(), b.Digest())
}

func TestFormatPageNamesEveryObject(t *testing.T) {
	page, err := os.ReadFile("../FORMAT.md")
	require.NoError(t, err)
	for _, o := range Objects() {
		require.Regexp(t, "`"+o.Name+"[`(]", string(page), "schema/FORMAT.md does not mention it")
	}
}
