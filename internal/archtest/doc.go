// Package archtest holds the rules of the code base as tests: who may import
// whom, what pure packages may not touch, and the form that all code has.
package archtest
