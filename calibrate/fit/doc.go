// Package fit finds the coefficients of the cost model from observations: values
// in, laws with their quality out. It is pure.
//
// Every fit is robust (Huber's loss on relative errors), keeps what cannot be
// negative at 0 or above, and chooses its form by cross-validation in blocks of
// time: of the forms that do not err more than one standard error beyond the best,
// the simplest (of a ladder of a few sizes, the best). What cannot be told apart by the data is not fitted: a form whose
// columns are dependent is left out.
package fit
