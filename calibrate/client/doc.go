// Package client is what a Go coordinator imports: it follows the coefficient
// server, and decides for each request whether to fetch, recompute or route.
//
// Decide reads one atomic pointer, takes no lock, does no I/O and allocates
// nothing. It goes on deciding whatever becomes of the server: a document is
// FRESH until its refresh-after, STALE until it expires, EXPIRED for a grace after
// that, during which its laws still hold and its link prices do not, and then the
// laws of Config.Fallback decide. The last good document is kept on disk.
//
//	c, err := client.New(client.Config{URL: "http://calibrate:9470", PublicKeys: keys, ...})
//	c.Start(ctx)
//	h200 := c.PrefillKey("llama-3.1-8b", "h200") // once
//	d := c.Decide(&request, buffer)              // for each request
package client
