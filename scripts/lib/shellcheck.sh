# ShellCheck for the tests of job scripts, as its PyPI wheel has it: in the cache and not installed. Needs setup.sh.

# Sets HPCTRAIN_SHELLCHECK to the program, or leaves it, having said why. What it names already stays.
ensure_shellcheck() {
  [[ -z ${HPCTRAIN_SHELLCHECK:-} ]] || return 0
  local pins=$ROOT/scripts/pins/shellcheck.txt program
  if [[ $(uname -m) != x86_64 ]]; then
    program=$(command -v shellcheck) && export HPCTRAIN_SHELLCHECK=$program && return 0
    say "No ShellCheck: it is pinned for x86-64 alone, and this machine has none of its own."
    return 0
  fi
  program=$CACHE/shellcheck-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -x $program ]]; then
    hold_lock shellcheck
    [[ -x $program ]] || unpack_shellcheck "$pins" "$program"
    release_lock
  fi
  export HPCTRAIN_SHELLCHECK=$program
}

unpack_shellcheck() { # PINS PROGRAM
  make_work
  need_megabytes 40 "ShellCheck"
  say "Downloading ShellCheck, which tests read job scripts with (4 MB, once)."
  fetch_wheels "$1" "$WORK/shellcheck-wheels" "ShellCheck"
  own_python python3 - "$WORK/shellcheck-wheels" "$WORK/shellcheck" <<'PYTHON' || fail "ShellCheck could not be unpacked."
import os, sys, zipfile
wheels, out = sys.argv[1:]
with zipfile.ZipFile(os.path.join(wheels, os.listdir(wheels)[0])) as archive:
    [name] = [name for name in archive.namelist() if name.endswith("/scripts/shellcheck")]
    with open(out, "wb") as to: to.write(archive.read(name))
os.chmod(out, 0o755)
PYTHON
  mv "$WORK/shellcheck" "$2"
}
