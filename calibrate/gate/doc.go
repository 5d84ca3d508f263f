// Package gate decides whether a challenger replaces the champion, and whether
// the champion has drifted. It is pure.
//
// A challenger is held against the champion on requests that came after those it
// was fitted to, paired, per slice of path, size and link. It must be better,
// beyond chance, on at least one slice that matters and not worse on any of them:
// a refit after one link changed is equal elsewhere, and asking it to be better
// there would keep the champion for good. A slice that matters with too little data
// refuses too, for unknown is never good.
package gate
