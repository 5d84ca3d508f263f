// Package app wires the stages into what a command runs: it opens the
// directory, the brokers and the databases, starts collect, load, replay,
// calibrate and serve in the right order, and sequences `up`, `simulate` and
// `demo`. It is the only package that knows more than one room.
package app
