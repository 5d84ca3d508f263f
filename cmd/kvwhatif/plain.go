package main

import (
	"bytes"
	"io"
	"unicode"
	"unicode/utf8"
)

// plain keeps a terminal from obeying what stands in names: whoever sends spans
// chooses those. Control characters but line ends and tabs, and those that turn
// the direction of text, become U+FFFD.
type plain struct {
	w    io.Writer
	rest []byte // of a character whose end is still to come
}

func (p *plain) Write(b []byte) (int, error) {
	text := append(p.rest, b...)
	whole := len(text)
	for i := max(0, len(text)-utf8.UTFMax+1); i < len(text); i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
			break
		}
	}
	p.rest = bytes.Clone(text[whole:])
	if _, err := p.w.Write(bytes.Map(harmless, text[:whole])); err != nil {
		return 0, err
	}
	return len(b), nil
}

func harmless(r rune) rune {
	switch {
	case r == '\n', r == '\t':
		return r
	case unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return utf8.RuneError
	}
	return r
}
