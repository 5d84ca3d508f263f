#!/bin/sh
# Puts the ClickHouse server library into the user's cache, where kvwhatif looks
# for it. Does nothing where it is there already. Safe to run twice at once.
set -eu

version=26.7.3-stable.1
package=@chdb/lib-linux-x64-gnu
sha256=36ad4e999882821ef13cf2d0f52c93f48e6ee1b4498b35a201c23ce4b8d15bf5

say() { echo "clickhouse engine: $*" >&2; }

# otherwise ends the script where the library cannot be had: well, if there is a
# clickhouse binary to use in its place.
otherwise() {
  if command -v clickhouse >/dev/null 2>&1; then
    say "$1; kvwhatif will run $(command -v clickhouse)"
    exit 0
  fi
  say "$1; install clickhouse so that it is on PATH, set KVWHATIF_CLICKHOUSE_LIB, or name a server with --clickhouse"
  exit 1
}

if [ -n "${KVWHATIF_CLICKHOUSE_LIB:-}" ]; then
  say "KVWHATIF_CLICKHOUSE_LIB names it: $KVWHATIF_CLICKHOUSE_LIB"
  exit 0
fi
if [ -n "${KVWHATIF_CLICKHOUSE_DSN:-}" ] && [ -z "${CI:-}" ]; then
  say "not needed: KVWHATIF_CLICKHOUSE_DSN names a server"
  exit 0
fi
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || otherwise "the library runs on Linux x86-64 only"

dir=${XDG_CACHE_HOME:-$HOME/.cache}/kvwhatif/clickhouse/$version
[ -s "$dir/libchdb.so" ] && exit 0
command -v npm >/dev/null 2>&1 || otherwise "npm is missing, and the library comes by npm"
command -v sha256sum >/dev/null 2>&1 || otherwise "sha256sum is missing, and the library must be verified"

mkdir -p "$dir"
if command -v flock >/dev/null 2>&1; then
  exec 9>"$dir/lock"
  flock 9
  [ -s "$dir/libchdb.so" ] && exit 0 # another one was faster
fi
work=$(mktemp -d "$dir/download.XXXXXX") # the same file system: the move below is atomic
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say "fetching $package@$version by npm, once (566 MB on disk)"
if ! (cd "$work" && npm pack --silent "$package@$version" >pack.txt 2>npm.log); then
  tail -n 5 "$work/npm.log" >&2
  otherwise "npm could not fetch $package@$version"
fi
tar -xzf "$work"/*.tgz -C "$work"
library=$(find "$work" -name libchdb.so -type f | head -n 1)
[ -n "$library" ] || otherwise "the package holds no libchdb.so"
found=$(sha256sum "$library" | cut -d' ' -f1)
[ "$found" = "$sha256" ] || { say "the library's SHA-256 is $found, and must be $sha256: not installed"; exit 1; }
chmod 755 "$library"
mv -f "$library" "$dir/libchdb.so"
say "installed $dir/libchdb.so"
