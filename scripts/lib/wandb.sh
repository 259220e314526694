# W&B's own program, the newest and one of 2024, each in its own environment in the cache: what we write must be theirs.
# Needs setup.sh and peer.sh.

# Sets HPCTRAIN_WANDB_PYTHON and HPCTRAIN_WANDB_PYTHON_OLD: a python whose `-m wandb` it is, or leaves them unset, having said why.
# What they name already stays.
ensure_wandb() {
  local found
  [[ -n ${HPCTRAIN_WANDB_PYTHON:-} ]] || { found=$(wandb_of wandb) && export HPCTRAIN_WANDB_PYTHON=$found; } || true
  [[ -n ${HPCTRAIN_WANDB_PYTHON_OLD:-} ]] || { found=$(wandb_of wandb_old) && export HPCTRAIN_WANDB_PYTHON_OLD=$found; } || true
}

wandb_of() { # PINS-NAME; prints its python
  local pins=$ROOT/scripts/pins/$1.txt folder python
  folder=$CACHE/$1-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -x $folder/bin/python ]]; then
    if [[ $(uname -m) != x86_64 ]]; then say "No wandb to compare with: its packages are pinned for x86_64 only."; return 1; fi
    python=$(peer_python) || { say "No wandb to compare with: it needs Python 3.11 to 3.13, and none is on PATH."; return 1; }
    hold_lock "$1"
    [[ -x $folder/bin/python ]] || install_wandb "$python" "$pins" "$folder" "$1"
    release_lock
  fi
  [[ -x $folder/bin/python ]] && echo "$folder/bin/python"
}

install_wandb() { # PYTHON PINS FOLDER NAME
  make_work
  need_megabytes 300 "the Python program wandb"
  say "Installing ${4/_old/ of 2024} from PyPI, which tests hand our runs to (once)."
  if own_python "$1" -m venv --without-pip "$WORK/$4" 2>"$WORK/pip.log" &&
    TMPDIR=$WORK/tmp own_python "$1" -m pip --python "$WORK/$4/bin/python" install --quiet --disable-pip-version-check \
      --no-cache-dir --no-deps --only-binary=:all: --require-hashes --requirement "$2" 2>"$WORK/pip.log"; then
    rm -rf "$3"
    mv "$WORK/$4" "$3"
  else
    say "No wandb to compare with: it could not be installed: $(tail -n 3 "$WORK/pip.log" | tr '\n' ' ')"
  fi
}
