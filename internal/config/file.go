package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// FileName is looked for in the working directory and in the user's
// configuration directory.
const FileName = "kvwhatif.yaml"

// fileVariable names the file where --config does not.
const fileVariable = Prefix + "CONFIG"

// file reads the configuration file and returns its path, "" for none.
func (m *merge) file(named string, environ []string) (string, error) {
	path, body, err := findFile(named, environ)
	if err != nil || path == "" {
		return "", err
	}
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return "", yamlError(path, err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("%s: holds more than one YAML document: keep one", path)
	}
	if len(document.Content) == 0 {
		return path, nil // empty, or comments only
	}
	return path, m.section(path, "", document.Content[0])
}

// findFile reads the file that was named, or the first that is there.
func findFile(named string, environ []string) (string, []byte, error) {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, fileVariable+"="); ok && named == "" {
			named = value
		}
	}
	if named != "" {
		body, err := os.ReadFile(named)
		if err != nil {
			return "", nil, fmt.Errorf("read the configuration file: %w", err)
		}
		return named, body, nil
	}
	for _, path := range usualFiles() {
		body, err := os.ReadFile(path)
		if err == nil {
			return path, body, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("read the configuration file: %w", err)
		}
	}
	return "", nil, nil
}

func usualFiles() []string {
	paths := []string{FileName}
	if dir, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(dir, "kvwhatif", FileName))
	}
	return paths
}

// section takes the settings of one mapping.
func (m *merge) section(path, prefix string, node *yaml.Node) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode {
		where := strings.TrimSuffix(prefix, ".")
		if where == "" {
			where = "the file"
		}
		return fmt.Errorf("%s:%d: %s must be a mapping of names to values", path, node.Line, where)
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		key := prefix + name.Value
		if line, twice := seen[key]; twice {
			return fmt.Errorf("%s:%d: %s is set twice, first at line %d", path, name.Line, key, line)
		}
		seen[key] = name.Line
		if err := m.entry(path, key, name.Line, value); err != nil {
			return err
		}
	}
	return nil
}

// entry takes one name of a mapping: a setting, a section, or an error.
func (m *merge) entry(path, key string, line int, value *yaml.Node) error {
	if m.isSection(key) {
		if value.Tag == "!!null" {
			return nil
		}
		return m.section(path, key+".", value)
	}
	if !m.isKnown(key) {
		if near := nearest(key, m.known); near != "" {
			return fmt.Errorf("%s:%d: unknown key %s: did you mean %s?", path, line, key, near)
		}
		return fmt.Errorf("%s:%d: unknown key %s: `kvwhatif config show` lists the keys", path, line, key)
	}
	var decoded any
	if err := value.Decode(&decoded); err != nil {
		return yamlError(path, err)
	}
	if decoded == nil {
		return nil // "key:" without a value leaves the default
	}
	return m.set(key, decoded, fmt.Sprintf("file %s:%d", path, line))
}

func (m *merge) isKnown(key string) bool {
	for _, l := range m.known {
		if l.key == key {
			return true
		}
	}
	return false
}

func (m *merge) isSection(key string) bool {
	for _, l := range m.known {
		if strings.HasPrefix(l.key, key+".") {
			return true
		}
	}
	return false
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlError puts the path and the line first, on one line.
func yamlError(path string, err error) error {
	text := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ")
	text = strings.TrimPrefix(text, "unmarshal errors: ")
	if at := yamlLine.FindStringSubmatch(text); at != nil {
		return fmt.Errorf("%s:%s: %s", path, at[1], strings.Replace(text, at[0], "", 1))
	}
	return fmt.Errorf("%s: %s", path, text)
}
