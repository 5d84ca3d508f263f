// Package docs_test holds the pages for people against the repository: what they
// link to and name is there, and the commands that they show exist.
package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = ".."

var (
	fenced   = regexp.MustCompile("(?ms)^```.*?^```$")
	quoted   = regexp.MustCompile("`([^`\n]+)`")
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	filePath = regexp.MustCompile(`^[a-z][\w.-]*(/[\w.-]+)+/?$`)
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w+$`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	command  = regexp.MustCompile(`(?:^|[\s/])kvwhatif ([a-z][a-z-]*(?: [a-z][a-z-]*)?)`)
)

// pages are all that people read, relative to the root.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md", "deploy/README.md", "schema/FORMAT.md", "internal/publicdata/README.md"}
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			out = append(out, filepath.Join("docs", path))
		}
		return err
	}))
	require.Greater(t, len(out), 10)
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(raw)
}

// A reader who follows a link and finds nothing stops trusting the rest.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			links++
			_, err := os.Stat(filepath.Join(root, filepath.Dir(page), target))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
	require.Greater(t, links, 20)
}

// Paths and tests in backticks are there. NAME stands for what the reader chooses.
func TestPagesNameWhatIsThere(t *testing.T) {
	tests, top := testNames(t), topLevel(t)
	named := 0
	for _, page := range pages(t) {
		for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(read(t, page), ""), -1) {
			name := m[1]
			first, _, _ := strings.Cut(name, "/")
			switch {
			case testName.MatchString(name):
				named++
				require.True(t, tests[name], "%s names the test %s, which is not there", page, name)
			case filePath.MatchString(name) && top[first] && !strings.Contains(name, "NAME"):
				named++
				_, err := os.Stat(filepath.Join(root, name))
				require.NoError(t, err, "%s names %s", page, name)
			}
		}
	}
	require.Greater(t, named, 100)
}

// topLevel is what a path of the repository begins with.
func topLevel(t *testing.T) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	out := map[string]bool{}
	for _, e := range entries {
		out[e.Name()] = e.IsDir() && e.Name() != "bin"
	}
	return out
}

// testNames are those of the whole repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range testFunc.FindAllStringSubmatch(string(raw), -1) {
				names[m[1]] = true
			}
		}
		return nil
	}))
	return names
}

// The records are numbered without a gap, and all in the list.
func TestDecisionsAreListed(t *testing.T) {
	files, err := filepath.Glob("adr/[0-9]*.md")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	list := read(t, "docs/adr/README.md")
	for i, f := range files {
		require.True(t, strings.HasPrefix(filepath.Base(f), fmt.Sprintf("%04d-", i+1)), "%s is record %d", f, i+1)
		require.Contains(t, list, "("+filepath.Base(f)+")")
		text := read(t, filepath.Join("docs", f))
		require.LessOrEqual(t, strings.Count(text, "\n"), 40, f)
		for _, part := range []string{"**Context.**", "**Decision.**", "**Consequences.**", "**What would change our mind.**"} {
			require.Contains(t, text, part, f)
		}
	}
}

// Every `kvwhatif COMMAND` of a page is a command of the program, asked of itself.
func TestCommandsExist(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "kvwhatif")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, root+"/cmd/kvwhatif").CombinedOutput()
	require.NoError(t, err, "%s", out)
	commands := complete(t, binary)
	require.Contains(t, commands, "demo")
	found := map[string]bool{}
	for _, page := range pages(t) {
		for _, code := range codes(read(t, page)) {
			for _, m := range command.FindAllStringSubmatch(code, -1) {
				words := strings.Fields(m[1])
				require.Contains(t, commands, words[0], "%s shows `%s`", page, code)
				found[words[0]] = true
				if below := complete(t, binary, words[0]); len(words) > 1 && len(below) > 0 {
					require.Contains(t, below, words[1], "%s shows `%s`", page, code)
				}
			}
		}
	}
	require.Greater(t, len(found), 8)
}

// codes are the lines of a page that show code.
func codes(page string) (out []string) {
	for _, block := range fenced.FindAllString(page, -1) {
		out = append(out, strings.Split(block, "\n")...)
	}
	for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		out = append(out, m[1])
	}
	return slices.DeleteFunc(out, func(line string) bool {
		return strings.Contains(line, childCommand) // started by the program itself, and hidden
	})
}

const childCommand = "clickhouse-child"

// complete are the commands below the ones given, as the program lists them to a
// shell.
func complete(t *testing.T, binary string, above ...string) []string {
	t.Helper()
	out, err := exec.Command(binary, append(append([]string{"__complete"}, above...), "")...).Output()
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(string(out)) {
		name, _, described := strings.Cut(line, "\t")
		if described {
			names = append(names, name)
		}
	}
	return names
}
