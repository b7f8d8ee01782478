#!/bin/sh
# Builds the pinned llama.cpp as the static libraries that cmake/kvern_dependencies.cmake imports.
#
#   build.sh SOURCE_DIR BUILD_DIR
#
# Applies patches/*.patch to SOURCE_DIR first. Both steps are idempotent: a patch already in the tree is skipped (a
# stamp with the patch's checksum says so), an up-to-date build takes a second. About 5 minutes of 2 cores when cold.
set -eu

if [ $# -ne 2 ]; then
  echo "usage: $0 SOURCE_DIR BUILD_DIR" >&2
  exit 2
fi
source_dir=$1
build_dir=$2
here=$(cd "$(dirname "$0")" && pwd)

if [ ! -f "$source_dir/include/llama.h" ]; then
  echo "$0: $source_dir is no llama.cpp source tree" >&2
  exit 1
fi

for patch in "$here"/patches/*.patch; do
  stamp="$source_dir/.kvern-$(basename "$patch").applied"
  sum=$(sha256sum "$patch" | cut -d' ' -f1)
  if [ -f "$stamp" ]; then
    if [ "$(cat "$stamp")" = "$sum" ]; then
      continue
    fi
    echo "$0: $(basename "$patch") changed since it was applied: unpack a fresh source tree into $source_dir" >&2
    exit 1
  fi
  # All or nothing: a patch that does not fit leaves the tree as it was.
  if ! patch -d "$source_dir" -p1 --dry-run --force --quiet <"$patch" >/dev/null; then
    echo "$0: $(basename "$patch") does not fit $source_dir: unpack a fresh source tree of the pinned version" >&2
    exit 1
  fi
  patch -d "$source_dir" -p1 --force --quiet <"$patch"
  echo "$sum" >"$stamp"
  echo "llama.cpp: applied $(basename "$patch")"
done

generator=
if command -v ninja >/dev/null 2>&1 && [ ! -f "$build_dir/CMakeCache.txt" ]; then
  generator="-G Ninja"
fi
launcher=
if command -v ccache >/dev/null 2>&1; then
  launcher="-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache"
fi

echo "llama.cpp: configuring in $build_dir"
# GGML_NATIVE=OFF: x86-64 with AVX2, so that a binary runs on another machine than its builder. OpenMP off: ggml's own
# thread pool, which the sanitizers understand. RPC off: a network back end nobody here may reach.
# shellcheck disable=SC2086
cmake -S "$source_dir" -B "$build_dir" $generator $launcher \
  -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
  -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_RPC=OFF -DGGML_CCACHE=OFF \
  -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
  -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
  -Wno-dev >"$build_dir.configure.log" 2>&1 || {
  cat "$build_dir.configure.log" >&2
  echo "$0: configuring llama.cpp failed" >&2
  exit 1
}

echo "llama.cpp: building (about 5 minutes of 2 cores when nothing is cached)"
cmake --build "$build_dir" --parallel "$(getconf _NPROCESSORS_ONLN)" --target llama ggml ggml-cpu ggml-base

for library in src/libllama.a ggml/src/libggml.a ggml/src/libggml-cpu.a ggml/src/libggml-base.a; do
  if [ ! -f "$build_dir/$library" ]; then
    echo "$0: the build left no $library" >&2
    exit 1
  fi
done
echo "llama.cpp: ready"
