package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's directory, seen from this package.
const root = "../.."

// tags are all build tags that our files use.
var tags = []string{"nightly", "e2e"}

var (
	packages = sync.OnceValues(func() ([]Package, error) { return Packages(root, tags...) })
	sources  = sync.OnceValues(func() ([]Source, error) { return Sources(root) })
)

func allPackages(t *testing.T) []Package {
	t.Helper()
	list, err := packages()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

func allSources(t *testing.T) []Source {
	t.Helper()
	list, err := sources()
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list
}

func TestImports(t *testing.T) {
	for _, p := range allPackages(t) {
		for i, imports := range [][]string{p.Imports, p.TestImports} {
			for _, imported := range imports {
				to, ok := ours(imported)
				if why := ForbiddenImport(p.Path, to, i == 1); ok && why != "" {
					t.Errorf("%s imports %s: %s", p.Path, to, why)
				}
			}
		}
	}
}

// What a pure package is built from is pure too, as far as it is ours.
func TestPurePackagesTouchNothing(t *testing.T) {
	byPath := map[string]Package{}
	for _, p := range allPackages(t) {
		byPath[p.Path] = p
	}
	for path := range byPath {
		if withinAny(path, Pure) {
			checkPure(t, byPath, path, path, map[string]bool{})
		}
	}
	for _, pure := range Pure {
		if _, there := byPath[pure]; !there {
			t.Errorf("%s is listed as pure, and is not there", pure)
		}
	}
}

func checkPure(t *testing.T, byPath map[string]Package, pure, path string, seen map[string]bool) {
	if seen[path] {
		return
	}
	seen[path] = true
	for _, imported := range byPath[path].Imports {
		if ImpureImport(imported) {
			t.Errorf("%s is pure, but %s imports %s", pure, path, imported)
		}
		if to, ok := ours(imported); ok {
			checkPure(t, byPath, pure, to, seen)
		}
	}
}

// clocks and global randomness that a pure function may not call.
var hidden = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"rand": {"Int", "IntN", "Intn", "Int63", "Int64", "Int64N", "Uint32", "Uint64", "Uint64N", "Float64", "Float32", "NormFloat64", "ExpFloat64", "Perm", "Shuffle", "N"},
}

func TestPurePackagesHaveNoClockNoGoroutineNoHiddenRandomness(t *testing.T) {
	for _, s := range allSources(t) {
		if s.Test || !withinAny(s.Dir(), Pure) {
			continue
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine in a pure package", s.Set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(hidden[x.Name], n.Sel.Name) {
					t.Errorf("%s calls %s.%s in a pure package", s.Set.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// Adapters walk the wire themselves, for speed: no generated types.
func TestExtractReadsTheWire(t *testing.T) {
	for _, p := range allPackages(t) {
		for _, imported := range p.Imports {
			if within(p.Path, "collector/extract") && (within(imported, "go.opentelemetry.io/proto") || strings.Contains(imported, "/pdata")) {
				t.Errorf("%s imports %s", p.Path, imported)
			}
		}
	}
}

func TestTopLevelAndDepth(t *testing.T) {
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && !slices.Contains(TopLevel, e.Name()) && hasFiles(t, e.Name()) {
			t.Errorf("%s stands at the top: allowed are %v", e.Name(), TopLevel)
		}
	}
	for _, s := range allSources(t) {
		if strings.Count(s.Dir(), "/") > 2 {
			t.Errorf("%s is more than three folders deep", s.Path)
		}
	}
}

// hasFiles is false for what a program left there, such as a demo's data.
func hasFiles(t *testing.T, dir string) bool {
	t.Helper()
	found := false
	require.NoError(t, Walk(filepath.Join(root, dir), func(path string) error {
		found = found || filepath.Ext(path) == ".go" || filepath.Ext(path) == ".sql"
		return nil
	}))
	return found
}

func TestRulesThemselves(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test     bool
		allowed  bool
	}{
		{"schema/ddl", "schema", false, true},
		{"schema/ddl", "internal/clickhouse", false, false},
		{"schema/ddl", "internal/clickhouse", true, true},
		{"schema", "collector/load", true, false},
		{"collector/load", "schema/ddl", false, true},
		{"collector/load", "internal/kafka", false, true},
		{"collector/load", "collector/extract", false, true},
		{"collector/load", "internal/app", false, false},
		{"collector/load", "replay/sample", true, false},
		{"internal/app", "replay/sample", false, true},
		{"internal/kafka", "replay/sample", false, false},
		{"cmd/kvwhatif", "internal/app", false, true},
		{"cmd/kvwhatif", "collector/load", false, false},
		{"e2e/truth", "collector/load", true, true},
	} {
		require.Equal(t, c.allowed, ForbiddenImport(c.from, c.to, c.test) == "", "%+v", c)
	}
	for imported, impure := range map[string]bool{"net/http": true, "net": true, "netip": false, "os/exec": true, "log/slog": true, "math": false, "context": true} {
		require.Equal(t, impure, ImpureImport(imported), imported)
	}
}
