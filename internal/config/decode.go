package config

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"

	"github.com/kvwhatif/kvwhatif/internal/config/units"
)

// assign decodes a value into a setting's field.
func assign(l leaf, value any) error {
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: "koanf", ErrorUnused: true, WeaklyTypedInput: true, Result: l.field.Addr().Interface(),
		DecodeHook: mapstructure.ComposeDecodeHookFunc(durations, texts, lists, strict),
	})
	if err != nil {
		return err
	}
	if l.field.Kind() == reflect.Slice || l.field.Kind() == reflect.Map {
		l.field.SetZero() // a later source replaces a list, it does not patch it
	}
	if err := decoder.Decode(value); err != nil {
		return fmt.Errorf("%s is not a %s: %s", shown(l, value), kind(l.field.Type()), reasonOf(err))
	}
	return nil
}

// shown is a value in an error.
func shown(l leaf, value any) string {
	if l.secret {
		return "the secret"
	}
	return fmt.Sprintf("%q", fmt.Sprint(value))
}

// reasonOf is the innermost reason, on one line.
func reasonOf(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "decoding failed due to the following error(s): ")
	text = strings.TrimPrefix(text, "'' ")
	return strings.TrimPrefix(text, "error decoding '': ")
}

// kind names a type for people.
func kind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration](), t == reflect.TypeFor[units.Duration]():
		return "duration"
	case t == reflect.TypeFor[units.Bytes]():
		return "size"
	case t == reflect.TypeFor[units.Rate]():
		return "rate"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "yes or no (true, false)"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		return "mapping"
	}
	return t.Kind().String()
}

// durations reads times with their unit; a bare number would be nanoseconds.
func durations(from, to reflect.Type, value any) (any, error) {
	if to != reflect.TypeFor[time.Duration]() {
		return value, nil
	}
	d, err := units.ParseDuration(fmt.Sprint(value))
	return d, err
}

// texts lets types read themselves, numbers of a file too.
func texts(from, to reflect.Type, value any) (any, error) {
	result := reflect.New(to)
	reader, ok := result.Interface().(encoding.TextUnmarshaler)
	if !ok || from == to || from.Kind() == reflect.Map || from.Kind() == reflect.Slice {
		return value, nil
	}
	err := reader.UnmarshalText([]byte(fmt.Sprint(value)))
	return result.Elem().Interface(), err
}

// lists splits the text of a variable at its commas.
func lists(from, to reflect.Type, value any) (any, error) {
	if from.Kind() != reflect.String || to.Kind() != reflect.Slice || to.Elem().Kind() == reflect.Uint8 {
		return value, nil
	}
	text := strings.TrimSpace(value.(string))
	if text == "" {
		return []string{}, nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts, nil
}

// strict refuses what the weak decoding of text would let through: the empty
// text as zero, and a fraction as a whole number.
func strict(from, to reflect.Type, value any) (any, error) {
	number := to.Kind() >= reflect.Bool && to.Kind() <= reflect.Float64
	switch text, isText := value.(string); {
	case isText && number && text == "":
		return nil, fmt.Errorf("it is empty")
	case from.Kind() == reflect.Float64 && number && to.Kind() < reflect.Float32:
		if f := value.(float64); f != float64(int64(f)) || to.Kind() == reflect.Bool {
			return nil, fmt.Errorf("it has a fraction")
		}
	case from.Kind() == reflect.Bool && number && to.Kind() != reflect.Bool, from.Kind() == reflect.Int && to.Kind() == reflect.Bool:
		return nil, fmt.Errorf("it is a %s", from.Kind())
	}
	return value, nil
}

// show is a setting's value for people, without its secrets.
func show(l leaf) string {
	if l.secret {
		if l.field.IsZero() {
			return ""
		}
		return "(hidden)"
	}
	text := fmt.Sprint(l.field.Interface())
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return u.Redacted()
	}
	return text
}
