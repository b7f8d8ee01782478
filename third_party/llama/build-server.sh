#!/bin/sh
# Builds llama.cpp's own server, to measure kvern's engine against it: the pinned source without patches, with the
# settings its authors give it, but for the same instruction set as kvern's build, static, and without TLS and web page.
#
#   build-server.sh SOURCE_DIR BUILD_DIR
#
# Leaves BUILD_DIR/bin/llama-server. About 6 minutes of 2 cores when cold.
set -eu

if [ $# -ne 2 ]; then
  echo "usage: $0 SOURCE_DIR BUILD_DIR" >&2
  exit 2
fi
source_dir=$1
build_dir=$2

generator=
if command -v ninja >/dev/null 2>&1 && [ ! -f "$build_dir/CMakeCache.txt" ]; then
  generator="-G Ninja"
fi
launcher=
if command -v ccache >/dev/null 2>&1; then
  launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
fi

echo "llama-server: configuring in $build_dir"
# shellcheck disable=SC2086
cmake -S "$source_dir" -B "$build_dir" $generator $launcher \
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF \
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
  -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON \
  -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
  -Wno-dev >"$build_dir.configure.log" 2>&1 || {
  cat "$build_dir.configure.log" >&2
  echo "$0: configuring llama.cpp failed" >&2
  exit 1
}
cmake --build "$build_dir" --parallel "$(getconf _NPROCESSORS_ONLN)" --target llama-server
if [ ! -x "$build_dir/bin/llama-server" ]; then
  echo "$0: the build left no llama-server" >&2
  exit 1
fi
echo "llama-server: ready"
