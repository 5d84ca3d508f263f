// Package publish assembles, signs and stores coefficient documents.
//
// A revision is given out once. Publishers that read the same newest revision all
// try to insert the next one, and each insert carries that revision as its
// deduplication token: ClickHouse keeps the first and drops the rest, under a lock
// on a server of its own, by its Keeper on a replicated table. Each then reads back
// which document the revision has; who lost publishes nothing and either begins
// again after the winner (where only prices changed) or is told (ErrConflict).
//
// What that rests on: the table is one MergeTree, plain or replicated (a
// Distributed table over shards has no common order), with the deduplication
// window of schema/ddl, and no publisher sleeps between its reading and its insert
// while a whole window of revisions, 10,000, is published by others. Even then
// readers agree: of two documents of a revision the one created first is it.
package publish
