// Package estimate answers what the path not taken would have cost. It is pure:
// decisions and replay legs come in as plain values, estimates go out, each with
// an interval and a sample size, or refused with a reason.
//
// For an ordered pair of paths the estimand is θ(a→b) = E[Y(b) − Y(a) | A = a],
// in seconds of TTFT over the decisions that chose a: positive where the choice
// helped. Direct effects do not add up to what another policy would do with its
// own queues and caches; that is policy evaluation, for which see Paired.
//
// A leg runs later than its decision, on a quieter and warmer fleet. Three steps
// make it comparable, in this order:
//
//  1. The model carries it to the state of its decision:
//     ỹ* = ỹ + m_b(state at decision) − m_b(state at replay).
//  2. What is left is δ_b, the bias of running path b as a replay. It is measured
//     on control legs of requests that chose b, reweighted to the requests that
//     chose a, and subtracted with its variance. (Control minus original of path
//     a corrects the wrong path, and can turn the sign.)
//  3. The legs are a sample with known inclusion probability π and a completion
//     q̂ estimated by stratum, so the mean is the augmented inverse-probability
//     weighted one: mean[m_b − y + R/(π q̂)·(ỹ* − δ_b − m_b)], with m_b the
//     prediction logged at the decision, recalibrated on earlier blocks only
//     (Robins, Rotnitzky and Zhao 1994; design-based with π known).
//
// Every estimate refuses where its support is too small: Known is false, Why
// says what to do, and its numbers are NaN.
package estimate
