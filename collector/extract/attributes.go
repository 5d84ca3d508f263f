package extract

import "github.com/kvwhatif/kvwhatif/schema"

// attributes reads those of a span; b begins at the first. An attribute in the
// usual form, and what is right with it, is done with by usual. For all else it
// is read again, in any form, and careful says what is wrong.
func (r *reading) attributes(b []byte, a *adapter) *fault {
	for len(b) > 0 {
		at, ok := usualAttribute(b)
		if ok && at.end-at.key <= r.limits.AttributeBytes-2 {
			key := b[at.key:at.keyEnd]
			done, f := r.usual(a.rules.find(key), b[at.value:at.end])
			if f != nil {
				return f.of(key)
			}
			if done {
				b = b[at.end:]
				continue
			}
		}
		body, rest, err := nextField(b, tagAttribute)
		if err != nil {
			return unreadable(err)
		}
		if body == nil {
			return nil
		}
		if f := r.careful(body, a); f != nil {
			return f
		}
		b = rest
	}
	return nil
}

func unreadable(err error) *fault {
	return faultf(CodeUndecodable, "an attribute can not be read: %v", err)
}

// of says which attribute the fault is of.
func (f *fault) of(key []byte) *fault {
	f.reason = "attribute " + clip(key) + ": " + f.reason
	return f
}

// usual applies a rule to an AnyValue in the usual form, as the rule wants it and
// within bounds. done is false, and nothing has happened, where it is not so.
func (r *reading) usual(u *rule, value []byte) (done bool, f *fault) {
	if u == nil {
		_, done = usualValue(value)
		return done, nil
	}
	if r.seen[u.word]&u.mask != 0 {
		return false, nil
	}
	switch u.op {
	case opSeconds:
		done = r.usualSeconds(u, value)
	case opText:
		done = r.usualText(u, value)
	case opCount, opInteger:
		done = r.usualInt(u, value)
	case opName:
		done = r.usualName(u, value)
	case opCall:
		var v Value
		if v, done = usualValue(value); done {
			f = u.set(r, v)
		}
	default:
		start, end, ok := length(value)
		if done = ok && value[0] == tagArray && end == len(value); done {
			f = r.column(u, value[start:])
		}
	}
	if done {
		r.seen[u.word] |= u.mask
		r.replay = r.replay || u.leg
	}
	return done, f
}

func (r *reading) usualSeconds(u *rule, value []byte) bool {
	x, ok := usualDouble(value)
	if !ok || !(x >= 0 && x <= r.limits.Seconds) {
		return false
	}
	*field[schema.Seconds](r.p, u.at) = schema.Some(x)
	return true
}

func (r *reading) usualInt(u *rule, value []byte) bool {
	if len(value) < 2 || value[0] != tagInt {
		return false
	}
	x, n := varint(value[1:])
	if n != len(value)-1 || int64(x) < 0 || int64(x) > r.ranges.ints[u.of] {
		return false
	}
	if u.op == opInteger {
		*field[int64](r.p, u.at) = int64(x)
	} else {
		*field[schema.Count](r.p, u.at) = schema.Some(int64(x))
	}
	return true
}

func (r *reading) usualText(u *rule, value []byte) bool {
	s, ok := usualString(value)
	if !ok || len(s) > r.limits.TextBytes || !isText(s) {
		return false
	}
	*field[string](r.p, u.at) = str(s)
	return true
}

func (r *reading) usualName(u *rule, value []byte) bool {
	s, ok := usualString(value)
	if !ok {
		return false
	}
	x, ok := u.parse(str(s))
	if ok {
		*field[uint8](r.p, u.at) = x
	}
	return ok
}

// careful reads one attribute, in any form.
func (r *reading) careful(body []byte, a *adapter) *fault {
	var attr Attribute
	if err := attr.read(body); err != nil {
		return unreadable(err)
	}
	f := r.attribute(&attr, a)
	if f != nil {
		return f.of(attr.Key)
	}
	return nil
}

func (r *reading) attribute(attr *Attribute, a *adapter) *fault {
	if attr.Size > r.limits.AttributeBytes && string(attr.Key) != schema.AttrPrefixBlocks {
		return faultf(CodeSize, "%d bytes, at most %d", attr.Size, r.limits.AttributeBytes)
	}
	u := a.rules.find(attr.Key)
	if u == nil {
		return nil
	}
	if r.seen[u.word]&u.mask != 0 {
		return faultf(CodeTwice, "it is there twice")
	}
	r.seen[u.word] |= u.mask
	r.replay = r.replay || u.leg
	return r.apply(u, attr.Value)
}

// apply puts the value where the rule says.
func (r *reading) apply(u *rule, v Value) *fault {
	switch u.op {
	case opText:
		return r.text(v, field[string](r.p, u.at))
	case opCount:
		return r.count(v, field[schema.Count](r.p, u.at), r.ranges.ints[u.of])
	case opInteger:
		return r.integer(v, field[int64](r.p, u.at), 0, r.ranges.ints[u.of])
	case opSeconds:
		dst := field[schema.Seconds](r.p, u.at)
		dst.OK = true
		return finite(v, &dst.V, 0, r.limits.Seconds)
	case opName:
		return r.named(v, field[uint8](r.p, u.at), u.parse)
	case opCall:
		return u.set(r, v)
	}
	if v.Type != TypeArray {
		return wrongType(v, TypeArray)
	}
	return r.column(u, v.b)
}
