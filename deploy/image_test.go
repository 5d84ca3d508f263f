package deploy_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/stretchr/testify/require"
)

// versionSymbol is what the linker sets.
const versionSymbol = "github.com/kvwhatif/kvwhatif/internal/app.Version"

// imageOf parses the Dockerfile: its stages, in order.
func imageOf(t *testing.T) []instructions.Stage {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(readFile(t, "Dockerfile")))
	require.NoError(t, err)
	require.Empty(t, parsed.Warnings)
	stages, _, err := instructions.Parse(parsed.AST, nil)
	require.NoError(t, err)
	require.Len(t, stages, 2)
	return stages
}

// of gives the commands of one kind in a stage.
func of[C any](s instructions.Stage) (out []C) {
	for _, command := range s.Commands {
		if c, ok := command.(C); ok {
			out = append(out, c)
		}
	}
	return out
}

// installed maps paths in the image to where they come from: "build:/out/x" or a
// path in the repository.
func installed(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range of[*instructions.CopyCommand](imageOf(t)[1]) {
		for _, source := range c.SourcePaths {
			to := c.DestPath
			if strings.HasSuffix(to, "/") {
				to = path.Join(to, path.Base(source))
			}
			from := source
			if c.From != "" {
				from = c.From + ":" + source
			}
			out[to] = from
		}
	}
	return out
}

func TestImageCopiesWhatIsThere(t *testing.T) {
	stages, allowed := imageOf(t), dockerignore(t)
	for _, stage := range stages {
		for _, c := range of[*instructions.CopyCommand](stage) {
			for _, source := range c.SourcePaths {
				if c.From != "" || source == "." {
					continue
				}
				require.FileExists(t, filepath.Join(root, source))
				require.True(t, allowed(source), "%s is left out by .dockerignore", source)
			}
		}
	}
	var made string
	for _, c := range of[*instructions.RunCommand](stages[0]) {
		made += strings.Join(c.CmdLine, " ") + "\n"
	}
	for to, from := range installed(t) {
		if built, ok := strings.CutPrefix(from, "build:/out/"); ok {
			require.Regexp(t, `(-o|install -d .*)\s*/out/`+built+`\b`, made, "nothing makes what becomes %s", to)
		}
	}
}

func TestImageBuildsTheProgram(t *testing.T) {
	build := of[*instructions.RunCommand](imageOf(t)[0])
	line := strings.Join(build[1].CmdLine, " ")
	for _, part := range []string{"CGO_ENABLED=0", "-trimpath", "-X " + versionSymbol + "=$VERSION", "-o /out/kvwhatif ./cmd/kvwhatif"} {
		require.Contains(t, line, part)
	}
	require.FileExists(t, filepath.Join(root, "cmd", "kvwhatif", "main.go"))
	out, errs, code := run(t, nil, "version")
	require.Zero(t, code, errs)
	require.Contains(t, out, testVersion, "the linker sets another variable")

	wanted := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readFile(t, root, "go.mod"))
	require.Contains(t, imageOf(t)[0].BaseName, "golang:"+wanted[1]+"-")
}

func TestImageRuns(t *testing.T) {
	last := imageOf(t)[1]
	entry := of[*instructions.EntrypointCommand](last)[0]
	require.False(t, entry.PrependShell, "a shell would not pass signals on")
	require.Equal(t, "build:/out/kvwhatif", installed(t)[entry.CmdLine[0]])
	user, _, _ := strings.Cut(of[*instructions.UserCommand](last)[0].User, ":")
	id, err := strconv.Atoi(user)
	require.NoError(t, err, "by number, or Kubernetes can not tell that it is not root")
	require.NotZero(t, id)

	program, err := elf.Open(binary)
	require.NoError(t, err)
	defer program.Close()
	dynamic := slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	require.True(t, dynamic, "the binary is static now: a smaller base would do")
	require.Regexp(t, `^debian:\w+-slim$`, last.BaseName, "the binary needs glibc")
}

// dockerignore reads the file as a list of what goes in, which is all that it may
// be: everything out, names in, and patterns of any depth out again.
func dockerignore(t *testing.T) func(file string) bool {
	t.Helper()
	var in, out []string
	lines := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(readFile(t, root, ".dockerignore"), ""))
	require.Equal(t, "*", lines[0])
	for _, line := range lines[1:] {
		name, isIn := strings.CutPrefix(line, "!")
		pattern, isDeep := strings.CutPrefix(line, "**/")
		require.True(t, isIn || isDeep, line)
		if isIn {
			_, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err)
			in = append(in, name)
		} else {
			out = append(out, pattern)
		}
	}
	return func(file string) bool {
		inside := slices.ContainsFunc(in, func(name string) bool { return file == name || strings.HasPrefix(file, name+"/") })
		return inside && !slices.ContainsFunc(strings.Split(file, "/"), func(element string) bool {
			return slices.ContainsFunc(out, func(pattern string) bool { ok, _ := path.Match(pattern, element); return ok })
		})
	}
}

// Everything that the program is compiled from reaches the build.
func TestImageHasAllSources(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,EmbedFiles", "./cmd/kvwhatif")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	allowed, seen := dockerignore(t), 0
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var p struct {
			ImportPath, Dir     string
			GoFiles, EmbedFiles []string
		}
		require.NoError(t, decoder.Decode(&p))
		inside, ours := strings.CutPrefix(p.ImportPath, "github.com/kvwhatif/kvwhatif/")
		if !ours {
			continue
		}
		for _, name := range append(p.GoFiles, p.EmbedFiles...) {
			seen++
			if file := path.Join(inside, filepath.ToSlash(name)); !allowed(file) {
				t.Errorf("%s is compiled in, and left out by .dockerignore", file)
			}
		}
	}
	require.Greater(t, seen, 100)
}

func TestReady(t *testing.T) {
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	at := port(t, server.Listener.Addr().String())
	ready := func() error { return exec.Command("./ready.sh", at).Run() }
	status.Store(http.StatusOK)
	require.NoError(t, ready())
	status.Store(http.StatusServiceUnavailable)
	require.Error(t, ready())
	server.Close()
	require.Error(t, ready())
}
