// Command truth holds the estimators against worlds whose truth is known, and
// prints what it found: how often intervals and confidence sequences are right,
// how far each estimator is off, and the same by the simulated fleet, where every
// decision is forked for its truth. It exits with 1 where a promise is not kept.
//
// It crosses rooms as an end-to-end test does: draws, replays and estimates run as
// they do in the program, in memory and without its engines.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// size is how much of everything a run does.
type size struct {
	worlds    int // of coverage and bias
	sequences int // worlds of a confidence sequence
	looks     int // at each
	seeds     int // of the simulated fleet, each link
}

var (
	full  = size{worlds: 1000, sequences: 2000, looks: 2000, seeds: 100}
	quick = size{worlds: 60, sequences: 300, looks: 2000, seeds: 6}
)

func main() {
	asJSON := flag.Bool("json", false, "print JSON")
	short := flag.Bool("quick", false, "a few seconds' worth of worlds, with wider bounds")
	flag.Parse()
	n := full
	if *short {
		n = quick
	}
	sections, err := all(n, os.Stderr)
	if err == nil {
		err = write(os.Stdout, sections, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "truth:", err)
		os.Exit(2)
	}
	if broken := failures(sections); len(broken) > 0 {
		for _, b := range broken {
			fmt.Fprintln(os.Stderr, "not kept:", b)
		}
		os.Exit(1)
	}
}

// all runs every section, saying on w how it goes.
func all(n size, w io.Writer) ([]Section, error) {
	var out []Section
	began := time.Now()
	worlds := sync.OnceValue(func() []found { return findings(n.worlds) })
	for _, s := range []struct {
		name string
		run  func(size) (Section, error)
	}{
		{"intervals", func(n size) (Section, error) { return intervals(worlds(), n) }},
		{"estimators", func(n size) (Section, error) { return estimators(worlds(), n) }},
		{"sequences", sequences},
		{"fleet, busy link", func(n size) (Section, error) { return fleetSection("busy", n.seeds) }},
		{"fleet, calm link", func(n size) (Section, error) { return fleetSection("calm", n.seeds) }},
		{"harm", harmSection},
	} {
		fmt.Fprintf(w, "%5.0f s  %s\n", time.Since(began).Seconds(), s.name)
		section, err := s.run(n)
		if err != nil {
			return out, fmt.Errorf("%s: %w", s.name, err)
		}
		out = append(out, section)
	}
	fmt.Fprintf(w, "%5.0f s  done\n", time.Since(began).Seconds())
	return out, nil
}

func write(w io.Writer, sections []Section, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(sections)
	}
	for _, s := range sections {
		if err := s.print(w); err != nil {
			return err
		}
	}
	return nil
}

func failures(sections []Section) (out []string) {
	for _, s := range sections {
		for _, c := range s.Checks {
			if !c.Kept() {
				out = append(out, s.Title+": "+c.String())
			}
		}
	}
	return out
}
