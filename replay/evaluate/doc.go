// Package evaluate says what a policy that is not deployed would have done to
// TTFT. It is pure: requests come in as plain values, estimates go out, each with
// an interval and a sample size, or refused with a reason.
//
// There are four ways, and each answers something else:
//
//   - Replays: V(d) = mean[1(d=A)·y + 1(d≠A)·(m_d + R/(π q̂)·(ỹ* − δ − m_d))]. Right
//     where only the request itself changes: queues and caches are as they were.
//   - Exploration: the logged propensities of a policy that explores, by IPW, SNIPW
//     and DR. Right under the same condition.
//   - Switchback: blocks of time under one policy and then the other. It carries what
//     a policy does to queues, but not what it does to caches over longer than a
//     block.
//   - Simulation: whole runs of a fleet (package fleet). It carries everything that
//     the simulated fleet has, and nothing that it lacks.
//
// Feedback says which of them an answer is to be taken from.
package evaluate
