//go:build race

package e2e

// buildFlags make the program that is tested what the tests are.
var buildFlags = []string{"-race"}
