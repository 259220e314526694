# Packages for one benchmark, in a folder of the cache that a Python adds to its path. Needs setup.sh and peer.sh.

# Sets PACKAGES to the folder of what scripts/pins/NAME.txt pins, or to nothing, having said why.
ensure_packages() { # NAME
  local pins=$ROOT/scripts/pins/$1.txt python
  PACKAGES=$CACHE/$1-$(sha256sum "$pins" | cut -c 1-12)
  [[ ! -d $PACKAGES ]] || return 0
  python=$(peer_python) || { say "No $1: it needs Python 3.11 to 3.13, and none is on PATH."; PACKAGES=; return 0; }
  make_work
  if TMPDIR=$WORK/tmp own_python "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    --require-hashes --requirement "$pins" --target "$WORK/$1" 2>"$WORK/pip.log"; then
    mv -T "$WORK/$1" "$PACKAGES" 2>/dev/null || [[ -d $PACKAGES ]] # another was faster
  else
    say "No $1: it could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
    PACKAGES=
  fi
}
