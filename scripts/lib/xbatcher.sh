# xbatcher and dask for `./scripts/bench maps`, in a folder of the cache that a Python adds to its path. Needs setup.sh and peer.sh.

# Sets XBATCHER to the folder, or to nothing, having said why.
ensure_xbatcher() {
  local pins=$ROOT/scripts/pins/xbatcher.txt python
  XBATCHER=$CACHE/xbatcher-$(sha256sum "$pins" | cut -c 1-12)
  [[ ! -d $XBATCHER ]] || return 0
  python=$(peer_python) || { say "No xbatcher: it needs Python 3.11 to 3.13, and none is on PATH."; XBATCHER=; return 0; }
  make_work
  if TMPDIR=$WORK/tmp own_python "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
    --require-hashes --requirement "$pins" --target "$WORK/xbatcher" 2>"$WORK/pip.log"; then
    mv -T "$WORK/xbatcher" "$XBATCHER" 2>/dev/null || [[ -d $XBATCHER ]] # another was faster
  else
    say "No xbatcher: it could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
    XBATCHER=
  fi
}
