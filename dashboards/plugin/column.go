package plugin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/grafana/grafana-plugin-sdk-go/data"
	"github.com/shopspring/decimal"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// column gathers one column of an answer as a field of a frame.
type column struct {
	field *data.Field
	kind  reflect.Type // that the driver scans into
	into  reflect.Value
}

// typeOf is the field's type for values of kind: numbers, booleans and instants are
// those, everything else is text. All can be null.
func typeOf(kind reflect.Type) data.FieldType {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch {
	case kind == reflect.TypeFor[time.Time]():
		return data.FieldTypeNullableTime
	case kind == reflect.TypeFor[decimal.Decimal]():
		return data.FieldTypeNullableFloat64
	}
	switch kind.Kind() {
	case reflect.Bool:
		return data.FieldTypeNullableBool
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return data.FieldTypeNullableInt64
	case reflect.Uint64, reflect.Uint:
		return data.FieldTypeNullableUint64
	case reflect.Float32, reflect.Float64:
		return data.FieldTypeNullableFloat64
	}
	return data.FieldTypeNullableString
}

func newColumn(c driver.ColumnType, f query.Field) *column {
	out := &column{kind: c.ScanType(), field: data.NewFieldFromFieldType(typeOf(c.ScanType()), 0)}
	out.field.Name = f.Name
	if config := configOf(f); config != nil {
		out.field.Config = config
	}
	return out
}

// emptyField is a declared field without values.
func emptyField(f query.Field) *data.Field {
	kind := map[query.Kind]data.FieldType{query.KindText: data.FieldTypeNullableString, query.KindNumber: data.FieldTypeNullableFloat64, query.KindTime: data.FieldTypeNullableTime}[f.Kind]
	out := data.NewFieldFromFieldType(kind, 0)
	out.Name = f.Name
	if config := configOf(f); config != nil {
		out.Config = config
	}
	return out
}

// target is where the driver puts the next value.
func (c *column) target() any {
	c.into = reflect.New(c.kind)
	return c.into.Interface()
}

// take appends what came, and returns its bytes of text. NaN and infinities, which
// have no place in JSON, are null.
func (c *column) take() int {
	v := c.into.Elem()
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			c.field.Extend(1)
			return 0
		}
		v = v.Elem()
	}
	switch c.field.Type() {
	case data.FieldTypeNullableTime:
		t := v.Interface().(time.Time).UTC()
		c.field.Append(&t)
	case data.FieldTypeNullableBool:
		c.field.Append(new(v.Bool()))
	case data.FieldTypeNullableInt64:
		if v.CanUint() {
			c.field.Append(new(int64(v.Uint())))
		} else {
			c.field.Append(new(v.Int()))
		}
	case data.FieldTypeNullableUint64:
		c.field.Append(new(v.Uint()))
	case data.FieldTypeNullableFloat64:
		c.takeFloat(v)
	default:
		s := textOf(v.Interface())
		c.field.Append(&s)
		return len(s)
	}
	return 8
}

func (c *column) takeFloat(v reflect.Value) {
	var f float64
	if d, ok := v.Interface().(decimal.Decimal); ok {
		f = d.InexactFloat64()
	} else {
		f = v.Float()
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		c.field.Extend(1)
		return
	}
	c.field.Append(&f)
}

// textOf is a value as text: bytes that are no text as hex digits, lists and maps as
// JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		if !utf8.ValidString(v) {
			return hex.EncodeToString([]byte(v))
		}
		return v
	case fmt.Stringer:
		return v.String()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // NaN within a list
	}
	return string(b)
}

// configOf is how a field is shown.
func configOf(f query.Field) *data.FieldConfig {
	if f.Title == "" && f.Unit == "" && f.Text == "" && len(f.Steps) == 0 {
		return nil
	}
	c := &data.FieldConfig{DisplayNameFromDS: f.Title, Unit: f.Unit, Description: f.Text}
	if f.Unit == "percentunit" {
		c.SetMin(0)
	}
	if len(f.Steps) > 0 {
		c.Thresholds = &data.ThresholdsConfig{Mode: data.ThresholdsModeAbsolute}
		for _, s := range f.Steps {
			c.Thresholds.Steps = append(c.Thresholds.Steps, data.NewThreshold(s.From, s.Color, ""))
		}
	}
	return c
}
