#!/bin/sh
# Puts axe-core, whose rules the tests of pages ask, beside those tests, by npm.
# Without npm those tests skip, so this says so and succeeds, unless CI is set.
set -eu

cd "$(dirname "$0")/../internal/browsertest/axe"
want=$(sed -n 's/.*"axe-core": "\(.*\)".*/\1/p' package.json)
have=$(sed -n 's/^  "version": "\(.*\)",*$/\1/p' node_modules/axe-core/package.json 2>/dev/null || true)
[ "$want" = "$have" ] && exit 0
if ! command -v npm >/dev/null 2>&1; then
  echo "npm is not on PATH, and with it axe-core: the browser tests will skip" >&2
  [ -z "${CI:-}" ]
  exit
fi
npm ci --no-audit --no-fund --silent
