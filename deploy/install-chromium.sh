#!/bin/sh
# Installs the browser that the tests of pages need, on Debian as root. Elsewhere
# those tests skip, so this says so and succeeds, unless CI is set.
set -eu

command -v chromium >/dev/null 2>&1 && exit 0
if [ -z "${CI:-}" ]; then
  echo "chromium is not on PATH: the browser tests will skip" >&2
  exit 0
fi
if ! command -v apt-get >/dev/null 2>&1 || [ "$(id -u)" != 0 ]; then
  echo "chromium is not on PATH, and installing it wants root and apt-get" >&2
  exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "apt-get could not install chromium" >&2
  exit 1
fi
