package main

import (
	"fmt"
	"io"
)

// page writes the report as a page of the docs.
func (r *report) page(w io.Writer) error {
	fmt.Fprintf(w, "# How fast it is\n\nWritten by the bench; do not edit. %s\n\nCommand: `%s`\n", r.head(), r.Command)
	for _, t := range r.Tables {
		t.Markdown(w)
	}
	return nil
}
