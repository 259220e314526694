#!/bin/sh
# CUDA C, or PTX, as a library of this host, for tests: host.sh TEXT LIBRARY [FLAGS of g++].
set -eu
text=$1 library=$2 here=$(dirname "$0")
shift 2
as_c() { cat "$text"; }
if [ "$(head -c 8 "$text")" = .version ]; then
  as_c() { printf '#include "%s/../ptx/ptx.h"\n' "$here"; awk -f "$here/../ptx/host.awk" "$text"; }
fi
{
  printf '#include "%s/host.h"\n#line 1 "%s"\n' "$here" "$(basename "$text")"
  as_c
  as_c | sed -nE 's/^.*__global__ void .*[ ]([a-z_0-9]+)\(.*$/HOST(\1)/p'
} | g++ -x c++ -std=c++17 -O1 -fPIC -shared -ffp-contract=off -fno-builtin -fvisibility=hidden \
  -Werror=frame-larger-than=400000 "$@" -o "$library" - # a fiber's stack has 512 KiB
