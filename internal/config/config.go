package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Prefix begins the name of every environment variable that is a setting.
const Prefix = "KVWHATIF_"

// Options says where settings come from.
type Options struct {
	File     string            // file that must exist, of --config; empty: FileName here, then in the user's configuration directory, if there
	Flags    *pflag.FlagSet    // only flags that were given count; nil: none
	FlagKeys map[string]string // flag name to key, where they are not alike
	Environ  []string          // NAME=value; nil: os.Environ
}

// Origin is a setting with where its value came from.
type Origin struct {
	Key    string
	Value  string // as it would be written; secrets are hidden
	Source string // "default", "file PATH:LINE", "environment NAME" or "flag --NAME"
}

// Loaded tells what Load has done.
type Loaded struct {
	File    string   // the file read, or ""
	Unknown []string // KVWHATIF_ variables that name no setting
	origins []Origin
}

// Origins lists every setting, sorted by key.
func (l *Loaded) Origins() []Origin { return l.origins }

// validator is a settings struct that can check itself.
type validator interface{ Validate() error }

// Load fills settings, a pointer to a struct that holds the defaults. If it
// has a Validate method, that is called at the end. Each error is one line
// that names the key and where the value came from.
func Load(settings any, o Options) (*Loaded, error) {
	v := reflect.ValueOf(settings)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("config: %T is not a pointer to a struct", settings)
	}
	known, err := leaves(v.Elem(), "")
	if err != nil {
		return nil, err
	}
	m := &merge{known: known, values: koanf.New("."), source: map[string]string{}}
	loaded := &Loaded{}
	if loaded.File, err = m.file(o.File, environ(o)); err != nil {
		return nil, err
	}
	if loaded.Unknown, err = m.environment(environ(o)); err != nil {
		return nil, err
	}
	if err := m.flags(o.Flags, o.FlagKeys); err != nil {
		return nil, err
	}
	if loaded.origins, err = m.decode(); err != nil {
		return nil, err
	}
	if check, ok := settings.(validator); ok {
		if err := check.Validate(); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
	}
	return loaded, nil
}

func environ(o Options) []string {
	if o.Environ == nil {
		return os.Environ()
	}
	return o.Environ
}

// merge collects values by key, later sources winning.
type merge struct {
	known  []leaf
	values *koanf.Koanf
	source map[string]string
}

// set gives a key its value and origin.
func (m *merge) set(key string, value any, source string) error {
	if err := m.values.Load(confmap.Provider(map[string]any{key: value}, "."), nil); err != nil {
		return fmt.Errorf("configuration %s: %w", key, err)
	}
	m.source[key] = source
	return nil
}

// byFlatName finds the setting that a variable or a flag names.
func (m *merge) byFlatName(name string) (string, bool) {
	for _, l := range m.known {
		if flat(l.key) == flat(name) {
			return l.key, true
		}
	}
	return "", false
}

// environment takes the variables that name a setting, and lists the rest.
// Those are no error: orchestrators add variables of their own.
func (m *merge) environment(environ []string) (unknown []string, err error) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		short, ours := strings.CutPrefix(name, Prefix)
		if !ours || name == fileVariable {
			continue
		}
		key, ok := m.byFlatName(short)
		if !ok {
			unknown = append(unknown, name)
			continue
		}
		if err := m.set(key, value, "environment "+name); err != nil {
			return nil, err
		}
	}
	sort.Strings(unknown)
	return unknown, nil
}

// flags takes those that were given on the command line.
func (m *merge) flags(set *pflag.FlagSet, keys map[string]string) error {
	if set == nil {
		return nil
	}
	var errs []error
	set.Visit(func(f *pflag.Flag) {
		key, ok := keys[f.Name]
		if !ok {
			key, ok = m.byFlatName(f.Name)
		}
		if !ok {
			return
		}
		var value any = f.Value.String()
		if list, many := f.Value.(pflag.SliceValue); many {
			value = list.GetSlice()
		}
		errs = append(errs, m.set(key, value, "flag --"+f.Name))
	})
	return errors.Join(errs...)
}

// decode writes the values into the fields.
func (m *merge) decode() ([]Origin, error) {
	var out []Origin
	for _, l := range m.known {
		origin := Origin{Key: l.key, Source: "default"}
		if source, ok := m.source[l.key]; ok {
			origin.Source = source
			if err := assign(l, m.values.Get(l.key)); err != nil {
				return nil, fmt.Errorf("%s (%s): %w", l.key, source, err)
			}
		}
		origin.Value = show(l)
		out = append(out, origin)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, nil
}
