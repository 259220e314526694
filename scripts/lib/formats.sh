# zarr-python, pyarrow, xarray, astropy, rasterio, tifffile and compliance-checker in an environment of their own in the cache: they
# write what tests read, and judge what is written. Needs setup.sh and peer.sh.

# Sets HPCTRAIN_FORMATS_PYTHON, or leaves it unset, having said why. What it names already stays.
ensure_formats() {
  local pins=$ROOT/scripts/pins/formats.txt folder python
  [[ -z ${HPCTRAIN_FORMATS_PYTHON:-} ]] || return 0
  folder=$CACHE/formats-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -x $folder/bin/python ]]; then
    if [[ $(uname -m) != x86_64 ]]; then say "No zarr-python or pyarrow: they are pinned for x86_64 only."; return 0; fi
    python=$(peer_python) || { say "No zarr-python or pyarrow: they need Python 3.11 to 3.13, and none is on PATH."; return 0; }
    hold_lock formats
    [[ -x $folder/bin/python ]] || install_formats "$python" "$pins" "$folder"
    release_lock
  fi
  [[ ! -x $folder/bin/python ]] || export HPCTRAIN_FORMATS_PYTHON=$folder/bin/python
}

install_formats() { # PYTHON PINS FOLDER
  make_work
  need_megabytes 1200 "zarr-python and pyarrow"
  say "Installing zarr-python, pyarrow, xarray, astropy, rasterio and compliance-checker, which tests compare with (about 450 MB, once)."
  if "$1" -m venv --without-pip "$WORK/formats" 2>"$WORK/pip.log" &&
    TMPDIR=$WORK/tmp "$1" -m pip --python "$WORK/formats/bin/python" install --quiet --disable-pip-version-check \
      --no-cache-dir --no-deps --only-binary=:all: --require-hashes --requirement "$2" 2>"$WORK/pip.log"; then
    rm -rf "$3"
    mv "$WORK/formats" "$3"
  else
    say "No zarr-python or pyarrow: they could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
  fi
}
