package main

import (
	"fmt"
	"io"
	"strings"
)

// preface of the page.
const preface = `# How fast it is

Written by the bench; do not edit. ` + "`make bench`" + ` writes it anew, on an idle machine
in some 20 minutes; ` + "`go run ./bench --only P3,P4 --results bench/results --write docs/PERFORMANCE.md`" + `
replaces some of the tables.

The machines that this is measured on have few and noisy cores. So read the
ratio, last in each line: what it is to was measured in the same run, in turns.
CPU is what the kernel charged the process, user and system. Profiles as text
are in [bench/profiles](../bench/profiles).

`

// page writes the report as a page of the docs.
func (r *report) page(w io.Writer) error {
	_, err := fmt.Fprint(w, preface, r.head(), "\n")
	if err != nil {
		return err
	}
	for _, t := range r.Tables {
		var text strings.Builder
		t.Markdown(&text)
		if _, err := io.WriteString(w, text.String()); err != nil {
			return err
		}
	}
	return nil
}
