//go:build !nightly

package evaluate_test

// switchbackSeeds is how many switchbacks of the simulated fleet are analysed; the
// nightly run takes more.
const switchbackSeeds = 2
