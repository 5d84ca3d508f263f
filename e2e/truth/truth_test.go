package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPromisesHold runs the small size of everything.
func TestPromisesHold(t *testing.T) {
	n := quick
	n.worlds, n.sequences, n.seeds = 12, 60, 3
	sections, err := all(n, io.Discard)
	require.NoError(t, err)
	var text, raw bytes.Buffer
	require.NoError(t, write(&text, sections, false))
	t.Log(text.String())
	assert.Empty(t, failures(sections))
	require.NoError(t, write(&raw, sections, true))
	var back []Section
	require.NoError(t, json.Unmarshal(raw.Bytes(), &back))
	assert.Len(t, back, len(sections))
}

// TestABrokenPromiseIsSeen: a check fails where its value is out of bounds or no number.
func TestABrokenPromiseIsSeen(t *testing.T) {
	var s Section
	s.check("good", 0.9, 0.87, 0.93)
	s.check("too low", 0.8, 0.87, 0.93)
	nan := 0.0
	s.check("nothing known", nan/nan, 0, 1)
	assert.Len(t, failures([]Section{s}), 2)
}
