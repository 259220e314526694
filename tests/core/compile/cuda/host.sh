#!/bin/sh
# CUDA C as a library of this host, for tests: host.sh TEXT LIBRARY [FLAGS of g++].
set -eu
text=$1 library=$2
shift 2
{
  printf '#include "%s/host.h"\n#line 1 "%s"\n' "$(dirname "$0")" "$(basename "$text")"
  cat "$text"
  sed -nE 's/^.*__global__ void .*[ ]([a-z_0-9]+)\(.*$/HOST(\1)/p' "$text"
} | g++ -x c++ -std=c++17 -O1 -fPIC -shared -ffp-contract=off -fno-builtin -fvisibility=hidden "$@" -o "$library" -
