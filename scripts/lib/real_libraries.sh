# transformers, timm, peft, tiktoken and others beside the packages of peer.txt, in a folder of their own in the cache, which a
# Python adds to its path: tests compare with them, and scripts/exported tries their models. Needs setup.sh and peer.sh.

# Sets HPCTRAIN_REAL_LIBRARIES; what it names already stays.
ensure_real_libraries() {
  [[ -z ${HPCTRAIN_REAL_LIBRARIES:-} ]] || return 0
  [[ -n ${HPCTRAIN_PYTHON:-} ]] || { say "No transformers, timm or peft: they need the Python PyTorch."; return 0; }
  local pins=$ROOT/scripts/pins/exported.txt folder
  folder=$CACHE/exported-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -d $folder ]]; then
    hold_lock exported
    [[ -d $folder ]] || install_real_libraries "$pins" "$folder"
    release_lock
  fi
  export HPCTRAIN_REAL_LIBRARIES=$folder
}

install_real_libraries() { # PINS FOLDER
  make_work
  need_megabytes 800 "the libraries that tests compare with"
  say "Installing transformers, timm, peft, diffusers and others, which tests compare with (about 300 MB, once)."
  TMPDIR=$WORK/tmp own_python python3 -m pip --python "$(realpath -s "$HPCTRAIN_PYTHON")" install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary=:all: --require-hashes --target "$WORK/exported" --requirement "$1" >/dev/null 2>"$WORK/pip.log" ||
    pip_failed "What tests compare with" "$WORK/pip.log"
  mv "$WORK/exported" "$2"
}

# Sets SEEN to a Python that has all of these and the packages of operations.txt, whose models `scripts/exported operations` exports.
ensure_seen_libraries() {
  local pins=$ROOT/scripts/pins/operations.txt folder
  folder=$CACHE/operations-$(sha256sum "$pins" | cut -c 1-12)
  SEEN=$folder/bin/python
  [[ ! -x $SEEN ]] || return 0
  make_work
  need_megabytes 6000 "the packages whose models are exported"
  say "Installing the packages whose models are exported (about 3 GB, once)."
  own_python "$HPCTRAIN_PYTHON" -m venv --without-pip "$WORK/seen"
  printf '%s\n' "$(site_of "$HPCTRAIN_PYTHON")" "$HPCTRAIN_REAL_LIBRARIES" >"$(site_of "$WORK/seen/bin/python")/peer.pth"
  own_python python3 -m pip --python "$WORK/seen/bin/python" list --format=freeze >"$WORK/there.txt" 2>/dev/null
  TMPDIR=$WORK/tmp own_python python3 -m pip --python "$WORK/seen/bin/python" install --quiet --disable-pip-version-check --no-cache-dir \
    --prefer-binary --constraint "$WORK/there.txt" --requirement "$pins" >/dev/null 2>"$WORK/pip.log" || pip_failed "What is exported" "$WORK/pip.log"
  mv "$WORK/seen" "$folder"
}

site_of() { own_python "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; } # PYTHON
