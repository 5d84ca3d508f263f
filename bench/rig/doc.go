// Package rig is what measuring needs around it: real engines, the programs
// measured as processes of their own, senders that cost little, and what the
// kernel says that a process has used.
package rig
