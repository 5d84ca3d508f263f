//go:build race

package main

// buildFlags make the program the one that other tests have built.
var buildFlags = []string{"-race"}
