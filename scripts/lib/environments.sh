# Environments of Python, each in a folder of its own in the cache, with programs that judge what hpctrain reads and writes. Needs
# setup.sh and peer.sh.

# zarr-python, pyarrow, xarray, astropy, rasterio, tifffile and compliance-checker write what tests read, and judge what is written.
ensure_formats() {
  ensure_environment formats HPCTRAIN_FORMATS_PYTHON 1200 "zarr-python, pyarrow, xarray, astropy, rasterio and compliance-checker"
}

# TensorBoard, MLflow, Optuna with its dashboard and onnxruntime open what is written for them.
ensure_viewers() {
  ensure_environment viewers HPCTRAIN_VIEWERS_PYTHON 1800 "TensorBoard, MLflow, Optuna and onnxruntime"
}

# Sets the variable to the environment's Python, or leaves it unset, having said why. What it names already stays.
ensure_environment() { # NAME VARIABLE MEGABYTES WHAT
  local pins=$ROOT/scripts/pins/$1.txt folder python
  [[ -z ${!2:-} ]] || return 0
  folder=$CACHE/$1-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -x $folder/bin/python ]]; then
    if [[ $(uname -m) != x86_64 ]]; then say "No $4: they are pinned for x86_64 only."; return 0; fi
    python=$(peer_python) || { say "No $4: they need Python 3.11 to 3.13, and none is on PATH."; return 0; }
    hold_lock "$1"
    [[ -x $folder/bin/python ]] || install_environment "$1" "$python" "$pins" "$folder" "$3" "$4"
    release_lock
  fi
  [[ ! -x $folder/bin/python ]] || export "$2=$folder/bin/python"
}

install_environment() { # NAME PYTHON PINS FOLDER MEGABYTES WHAT
  make_work
  need_megabytes "$5" "$6"
  say "Installing $6, which tests compare with (about $(($5 / 3)) MB to download, once)."
  if own_python "$2" -m venv --without-pip "$WORK/$1" 2>"$WORK/pip.log" &&
    TMPDIR=$WORK/tmp own_python "$2" -m pip --python "$WORK/$1/bin/python" install --quiet --disable-pip-version-check \
      --no-cache-dir --no-deps --only-binary=:all: --require-hashes --requirement "$3" 2>"$WORK/pip.log"; then
    rm -rf "$4"
    mv "$WORK/$1" "$4"
  else
    say "No $6: they could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
  fi
}
