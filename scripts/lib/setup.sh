# What every script needs first: where things are, how to speak, how to fetch a pinned wheel. Sourced, not run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
CACHE=${HPCTRAIN_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set: set it, or HPCTRAIN_CACHE, to a folder you can write to.}/.cache}/hpctrain}
[[ $CACHE == /* ]] || CACHE=$PWD/$CACHE
export HPCTRAIN_CACHE=$CACHE
export DENO_DIR=$CACHE/deno-dir DENO_TLS_CA_STORE=${DENO_TLS_CA_STORE:-system,mozilla}
export DENO_NO_UPDATE_CHECK=1
WORK= # this process's own half-made things; removed however it ends

say() { printf '%s\n' "$*" >&2; }
fail() { say "$@"; exit 7; }

# Where `hpctrain libtorch install` puts the CPU library of this version, for this machine or one of that architecture.
libtorch_folder() { # VERSION [ARCHITECTURE]
  local arch=${2:-$(uname -m)}
  echo "$CACHE/libtorch/$1-cpu$([[ $arch == x86_64 ]] || echo "-$arch")/lib"
}

check_machine() {
  local arch glibc
  arch=$(uname -m)
  [[ $(uname -s) == Linux && $arch =~ ^(x86_64|aarch64)$ ]] ||
    fail "hpctrain runs on Linux on x86_64 or aarch64; this machine is $(uname -s) on $arch."
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || fail "hpctrain needs glibc 2.28 or newer; this system has another C library."
  [[ $(printf '2.28\n%s\n' "${glibc#glibc }" | sort -V | head -n 1) == 2.28 ]] ||
    fail "hpctrain needs glibc 2.28 or newer (as in RHEL 8, Debian 10, Ubuntu 18.10); this system has ${glibc#glibc }."
  mkdir -p "$CACHE" 2>/dev/null ||
    fail "The cache folder $CACHE can't be made. Set HPCTRAIN_CACHE to a folder you can write to."
}

# Makes WORK, a folder in the cache for things that are not whole yet. What a killed run left is removed by the next.
make_work() {
  [[ -z $WORK ]] || return 0
  local old pid
  for old in "$CACHE/.partial-$HOSTNAME"-*; do
    pid=${old##*-}
    [[ ! -d $old ]] || kill -0 "$pid" 2>/dev/null || rm -rf "$old"
  done
  WORK=$CACHE/.partial-$HOSTNAME-$$
  mkdir -p "$WORK/tmp"
  trap 'rm -rf "$WORK"' EXIT
  trap 'exit 130' INT TERM
}

# Holds the named lock until this shell ends, where there is flock; without it, two at once do the work twice.
hold_lock() {
  command -v flock >/dev/null || return 0
  exec {LOCK}>"$CACHE/.lock-$1"
  flock -n "$LOCK" || { say "Waiting for another hpctrain set-up to finish."; flock "$LOCK"; }
}
release_lock() { [[ -z ${LOCK:-} ]] || { exec {LOCK}>&-; LOCK=; }; }

need_megabytes() { # NUMBER WHAT-FOR
  local free
  free=$(df -Pm "$CACHE" | awk 'NR == 2 { print $4 }')
  ((free >= $1)) || fail "$1 MB are needed in $CACHE for $2, and $free MB are free." \
    "Free some, or set HPCTRAIN_CACHE to a folder with room."
}

# Runs a Python for ourselves. `-c`, `-m` and `-` look for modules where they are started, before they look anywhere else, and
# the working folder may have a json.py or a pip.py: so it starts in an empty folder, and the working folder is not in PYTHONPATH.
own_python() ( # PYTHON ARGUMENTS...
  make_work
  mkdir -p "$WORK/empty"
  kept='' program=$1
  shift
  while IFS= read -r -d : place; do
    [[ $place != /* || $place -ef . ]] || kept+=:$place
  done <<<"${PYTHONPATH:-}:"
  unset PYTHONPATH
  [[ -z $kept ]] || export PYTHONPATH=${kept#:}
  # What pip reads may be named from the working folder.
  for name in PIP_CONFIG_FILE PIP_FIND_LINKS PIP_CERT PIP_CLIENT_CERT SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE; do
    [[ -z ${!name:-} || ${!name} == /* || ! -e ${!name} ]] || export "$name=$PWD/${!name}"
  done
  [[ $program != */* || $program == /* ]] || program=$PWD/$program
  cd "$WORK/empty" || exit
  "$program" "$@"
)

# Downloads the wheels of a pin file into a folder; pip refuses anything whose hash is not in it.
fetch_wheels() { # PIN-FILE FOLDER WHAT
  command -v python3 >/dev/null ||
    fail "There is no python3 on PATH, which is needed to download $3. Install it, or load your site's Python module."
  own_python python3 -m pip --version >/dev/null 2>&1 ||
    fail "This python3 has no pip, which is needed to download $3. Try: python3 -m ensurepip --user"
  TMPDIR=$WORK/tmp own_python python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --only-binary=:all: --require-hashes --requirement "$1" --dest "$2" >/dev/null 2>"$WORK/pip.log" ||
    pip_failed "$3" "$WORK/pip.log"
}

pip_failed() { # WHAT LOG
  local why
  if grep -qiE 'no space left|disk quota' "$2"; then
    why="the disk or quota is full; free some, or set HPCTRAIN_CACHE to another folder"
  elif grep -qi 'do not match the hashes' "$2"; then
    why="what arrived is not what is pinned (its hash differs), so it was thrown away"
  elif grep -qiE 'connection|resolve|timed out|unreachable|proxy|SSL|from versions: none' "$2"; then
    why="the package index can't be reached or has nothing for this machine; check the network, the proxy, pip's settings"
    why+=" (pip config list) and that pip is 20.3 or newer"
  else
    why="pip says: $(tail -n 3 "$2" | tr '\n' ' ')"
  fi
  fail "$1 could not be downloaded: $why."
}
