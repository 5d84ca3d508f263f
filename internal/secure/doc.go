// Package secure is TLS and bearer tokens: for servers out of files that may
// change while they run, and for clients. It never puts a token into an error.
package secure
