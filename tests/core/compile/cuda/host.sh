#!/bin/sh
# CUDA C as a library of this host, for tests: host.sh TEXT LIBRARY [FLAGS of g++].
set -eu
text=$1 library=$2 here=$(dirname "$0")
shift 2
{
  printf '#include "%s/host.h"\n#line 1 "%s"\n' "$here" "$(basename "$text")"
  cat "$text"
  sed -nE 's/^.*__global__ void .*[ ]([a-z_0-9]+)\(.*$/HOST(\1)/p' "$text"
} | g++ -x c++ -std=c++17 -O1 -fPIC -shared -ffp-contract=off -fno-builtin -fvisibility=hidden \
  -Werror=frame-larger-than=400000 "$@" -o "$library" - # a fiber's stack has 512 KiB
