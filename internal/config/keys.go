package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// leaf is one setting: a field that is decoded as a whole.
type leaf struct {
	key    string
	field  reflect.Value
	secret bool
}

// leaves walks the struct; nested structs become dotted keys.
func leaves(v reflect.Value, prefix string) ([]leaf, error) {
	var out []leaf
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("koanf"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" && !f.Anonymous {
			return nil, fmt.Errorf("config: field %s.%s has no koanf tag", v.Type(), f.Name)
		}
		key := prefix + name
		if f.Type.Kind() != reflect.Struct || isLeaf(f.Type) {
			out = append(out, leaf{key: key, field: v.Field(i), secret: f.Tag.Get("secret") == "true"})
			continue
		}
		if key != prefix {
			key += "."
		}
		below, err := leaves(v.Field(i), key)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// isLeaf is true for structs that read themselves from text.
func isLeaf(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(textType) || t == reflect.TypeFor[time.Time]()
}

// flat is a key without what differs between a flag, a variable and a file.
func flat(key string) string {
	return strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.ToLower(key))
}

// nearest is the key that a misspelt one probably means, or "".
func nearest(key string, known []leaf) string {
	best, distance := "", 1+len(key)/3
	for _, l := range known {
		d := edits(key, l.key)
		if last := l.key[strings.LastIndex(l.key, ".")+1:]; key[strings.LastIndex(key, ".")+1:] == last {
			d = min(d, distance) // the right name under another section
		}
		if d < distance || (d == distance && best == "") {
			best, distance = l.key, d
		}
	}
	return best
}

// edits is the Levenshtein distance.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
