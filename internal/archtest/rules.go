package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// Rooms import the schema and internal packages, never each other.
var Rooms = []string{"collector", "replay", "calibrate", "dashboards"}

// Pure packages take values and return values.
var Pure = []string{
	"schema/cost", "collector/extract", "replay/sample", "replay/budget", "replay/estimate", "replay/evaluate", "replay/fleet", "calibrate/fit", "calibrate/gate",
}

// TopLevel are the directories that may stand at the root.
var TopLevel = []string{"collector", "replay", "calibrate", "schema", "dashboards", "deploy", "cmd", "internal", "e2e", "bench", "docs"}

// wiring is the one package that puts the rooms together.
const wiring = "internal/app"

// impure are the imports that pure packages may not have, with what is below
// them.
var impure = []string{
	"context", "net", "os", "log", "syscall", "io/ioutil", "crypto/rand", "runtime", "plugin", "database/sql",
	"github.com/segmentio/kafka-go", "github.com/twmb", "github.com/ClickHouse", "google.golang.org/grpc",
	"go.opentelemetry.io", "github.com/prometheus", "github.com/spf13", "github.com/knadh", "golang.org/x/sync", "golang.org/x/sys",
}

// within is true for dir itself and what is below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// withinAny is within for any of the directories.
func withinAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
}

// room is the first element of a path.
func room(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

// ours is the path inside the module of an import, if it is one of ours.
func ours(imported string) (string, bool) {
	return strings.CutPrefix(imported, Module+"/")
}

// ForbiddenImport says why a package may not import another of ours, or "".
// Tests may use internal packages, such as the embedded engines, anywhere.
func ForbiddenImport(from, to string, test bool) string {
	switch {
	case within(from, wiring), within(from, "e2e"), within(from, "bench"):
		return ""
	case within(to, wiring):
		if within(from, "cmd") {
			return ""
		}
		return "only cmd may start " + wiring
	case within(to, "internal"):
		if within(from, "schema") && !test {
			return "schema imports nothing of ours but schema"
		}
		return ""
	case within(to, "schema"), room(from) == room(to):
		return ""
	case within(from, "schema"):
		return "schema imports nothing of ours but schema"
	case slices.Contains(Rooms, room(to)):
		return "only " + wiring + " puts rooms together"
	}
	return fmt.Sprintf("%s may not be imported", room(to))
}

// ImpureImport says whether a pure package may not import this.
func ImpureImport(imported string) bool { return withinAny(imported, impure) }
