# The Python PyTorch that tests and benchmarks compare with, in its own environment in the cache. Needs setup.sh.

# Sets PEER to its python, or to nothing, having said why.
ensure_peer() {
  local pins=$ROOT/scripts/pins/peer.txt folder python
  folder=$CACHE/peer-$(sha256sum "$pins" | cut -c 1-12)
  PEER=$folder/bin/python
  [[ ! -x $PEER ]] || return 0
  PEER=
  if [[ $(uname -m) != x86_64 ]]; then say "No Python peer: its packages are pinned for x86_64 only."; return 0; fi
  python=$(peer_python) || { say "No Python peer: PyTorch 2.15 with NumPy 2.4 needs Python 3.11 to 3.13, and none is on PATH."; return 0; }
  hold_lock peer
  if [[ ! -x $folder/bin/python ]]; then install_peer "$python" "$pins" "$folder"; fi
  release_lock
  [[ ! -x $folder/bin/python ]] || PEER=$folder/bin/python
}

peer_python() {
  local name
  for name in python3 python3.13 python3.12 python3.11; do
    if own_python "$name" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

install_peer() { # PYTHON PINS FOLDER
  make_work
  need_megabytes 12000 "the Python PyTorch to compare with"
  say "Installing the Python PyTorch that tests compare with (about 2.5 GB, once)."
  if own_python "$1" -m venv --without-pip "$WORK/peer" 2>"$WORK/pip.log" &&
    TMPDIR=$WORK/tmp own_python "$1" -m pip --python "$WORK/peer/bin/python" install --quiet --disable-pip-version-check \
      --no-cache-dir --no-deps --only-binary=:all: --require-hashes --requirement "$2" 2>"$WORK/pip.log"; then
    rm -rf "$3"
    mv "$WORK/peer" "$3"
  else
    say "No Python peer: it could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
  fi
}
