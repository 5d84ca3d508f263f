package deploy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pages are for people, and name files and tests.
var pages = []string{"docs/PATTERNS.md", "deploy/README.md"}

var (
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	filePath = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)+/?$`)
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
)

// testNames are those of the whole repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testFunc.FindAllStringSubmatch(readFile(t, path), -1) {
				names[m[1]] = true
			}
		}
		return nil
	}))
	return names
}

// What a page names is there: a reader who does not find it stops trusting the
// rest.
func TestPagesNameWhatIsThere(t *testing.T) {
	tests := testNames(t)
	for _, page := range pages {
		named := 0
		for _, m := range quoted.FindAllStringSubmatch(readFile(t, root, page), -1) {
			name := m[1]
			switch {
			case testName.MatchString(name):
				named++
				require.True(t, tests[name], "%s names the test %s, which is not there", page, name)
			case filePath.MatchString(name) && !strings.Contains(name, "NAME"):
				named++
				_, err := os.Stat(filepath.Join(root, name))
				require.NoError(t, err, "%s names %s", page, name)
			}
		}
		require.Greater(t, named, 5, page)
	}
}
