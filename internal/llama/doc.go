// Package llama runs llama.cpp servers and speaks to them: where the server is
// (deploy/install-llama.sh puts it there), a small model with random weights, a
// server as a child process, its HTTP API with the client's own clock, prompts
// out of block hashes, and a link of a stated rate between a tier's directory and
// a server's. Facts of its API are those of build 11434.
package llama
