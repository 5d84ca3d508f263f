//go:build !nightly

package estimate

// How many worlds the default tests draw; nightly draws more.
const (
	coverageWorlds = 150
	sequenceWorlds = 200
)
