//go:build nightly

package estimate

const (
	coverageWorlds = 2000
	sequenceWorlds = 2000
)
