package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/data"

	"github.com/kvwhatif/kvwhatif/dashboards/query"
)

// contract is the version of the dataplane contract that frames keep to.
var contract = data.FrameTypeVersion{0, 1}

// shape makes of one table the frames that its statement is said to be.
func shape(frame *data.Frame, s query.Statement, step time.Duration) (data.Frames, error) {
	switch s.Shape {
	case query.ShapeSeries:
		return series(frame, step)
	case query.ShapeNumeric:
		frame.Meta.Type, frame.Meta.TypeVersion = data.FrameTypeNumericLong, contract
	default:
		frame.Meta.Type, frame.Meta.TypeVersion = data.FrameTypeTable, contract
	}
	return data.Frames{frame}, nil
}

// series makes one frame of each number and each set of labels: time and value. The
// first instant is the time, texts are labels.
func series(long *data.Frame, step time.Duration) (data.Frames, error) {
	at, labels, values := -1, []int{}, []int{}
	for i, f := range long.Fields {
		switch {
		case f.Type() == data.FieldTypeNullableTime && at < 0:
			at = i
		case f.Type().Numeric():
			values = append(values, i)
		case f.Type() == data.FieldTypeNullableString:
			labels = append(labels, i)
		}
	}
	if len(long.Fields) > 0 && (at < 0 || len(values) == 0) {
		return nil, &refusal{"a series needs a column that is a time and one that is a number: SELECT toStartOfInterval(minute, INTERVAL $__interval) AS time, ...; or choose the view table"}
	}
	b := seriesBuilder{meta: *long.Meta, step: step, of: map[string]*data.Frame{}}
	for row := range long.Rows() {
		time, _ := long.Fields[at].ConcreteAt(row)
		set, key := labelsAt(long, labels, row)
		for _, v := range values {
			if t, ok := timeOf(time); ok {
				b.add(long.Fields[v], row, t, set, fmt.Sprintf("%d\x00%s", v, key))
			}
		}
	}
	if len(b.frames) == 0 { // what an empty answer is, with its notices
		meta := b.meta
		meta.Type, meta.TypeVersion = data.FrameTypeTimeSeriesMulti, contract
		empty := data.NewFrame("")
		empty.Meta = &meta
		return data.Frames{empty}, nil
	}
	return b.frames, nil
}

func timeOf(v any) (time.Time, bool) { t, ok := v.(time.Time); return t, ok }

func labelsAt(long *data.Frame, columns []int, row int) (set data.Labels, key string) {
	set = data.Labels{}
	var b strings.Builder
	for _, i := range columns {
		v, _ := long.Fields[i].ConcreteAt(row)
		text, _ := v.(string)
		set[long.Fields[i].Name] = text
		fmt.Fprintf(&b, "%d:%s", len(text), text)
	}
	return set, b.String()
}

// seriesBuilder keeps the series in the order in which they came up.
type seriesBuilder struct {
	meta   data.FrameMeta
	step   time.Duration
	of     map[string]*data.Frame
	frames data.Frames
}

func (b *seriesBuilder) add(from *data.Field, row int, at time.Time, labels data.Labels, key string) {
	f := b.of[key]
	if f == nil {
		f = b.start(from, labels)
		b.of[key] = f
		b.frames = append(b.frames, f)
	}
	f.Fields[0].Append(at)
	f.Fields[1].Append(from.At(row))
}

func (b *seriesBuilder) start(from *data.Field, labels data.Labels) *data.Frame {
	at := data.NewFieldFromFieldType(data.FieldTypeTime, 0)
	at.Name, at.Config = "time", &data.FieldConfig{Interval: float64(b.step.Milliseconds())}
	value := data.NewFieldFromFieldType(from.Type(), 0)
	value.Name, value.Labels, value.Config = from.Name, labels, &data.FieldConfig{}
	if from.Config != nil {
		c := *from.Config
		value.Config = &c
	}
	value.Config.DisplayNameFromDS = nameOf(from, labels)
	f := data.NewFrame("", at, value)
	meta := b.meta
	if len(b.frames) > 0 {
		meta.Notices = nil // once is enough
	}
	meta.Type, meta.TypeVersion, meta.PreferredVisualization = data.FrameTypeTimeSeriesMulti, contract, data.VisTypeGraph
	f.Meta = &meta
	return f
}

// nameOf is a series' name for people: its labels, then what it is.
func nameOf(f *data.Field, labels data.Labels) string {
	title := f.Name
	if f.Config != nil && f.Config.DisplayNameFromDS != "" {
		title = f.Config.DisplayNameFromDS
	}
	var parts []string
	for _, name := range sortedKeys(labels) {
		if name != "of" {
			parts = append(parts, labels[name])
		}
	}
	return strings.Join(append(parts, title), ", ")
}

func sortedKeys(l data.Labels) []string { return slices.Sorted(maps.Keys(l)) }
