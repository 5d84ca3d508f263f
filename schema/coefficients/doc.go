// Package coefficients is the coefficient document as bytes: its canonical JSON,
// its JSON Schema, what makes a document acceptable, and its signature.
//
// The bytes that were signed are the document. Nobody re-encodes a document that
// was received: its digest and its signature are of the exact bytes.
package coefficients
