// Package browsertest shows pages to headless Chromium, for tests: what a reader
// would complain of, what axe-core finds, what the page says on the console and
// whom it asks.
package browsertest
