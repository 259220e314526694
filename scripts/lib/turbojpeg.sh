# The machine's libturbojpeg, for the tests and benchmarks of JPEG files: where there is none, Debian's own package,
# unpacked into the cache and not installed. Needs setup.sh.

# Sets HPCTRAIN_TURBOJPEG, or leaves it, having said why: the system's own is found without it.
ensure_turbojpeg() {
  [[ -z ${HPCTRAIN_TURBOJPEG:-} ]] || return 0
  ! has_turbojpeg || return 0
  local folder=$CACHE/turbojpeg-$(uname -m) found
  if ! find_turbojpeg "$folder" >/dev/null; then
    hold_lock turbojpeg
    find_turbojpeg "$folder" >/dev/null || unpack_turbojpeg "$folder"
    release_lock
  fi
  found=$(find_turbojpeg "$folder") || return 0
  export HPCTRAIN_TURBOJPEG=$found
}

has_turbojpeg() { { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep 'libturbojpeg\.so\.0' >/dev/null; }
find_turbojpeg() { compgen -G "$1/usr/lib/*/libturbojpeg.so.0"; }

unpack_turbojpeg() { # FOLDER
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    { say "No libturbojpeg: this machine has none, and no apt-get to fetch it with. Install it with the system's packages."; return 0; }
  make_work
  mkdir "$WORK/turbojpeg"
  # Its lists may be missing, and only root can fetch them.
  if (cd "$WORK/turbojpeg" && { fetch_turbojpeg || { apt-get update && fetch_turbojpeg; }; }) &>"$WORK/apt.log" &&
    dpkg-deb -x "$WORK"/turbojpeg/*.deb "$WORK/turbojpeg/files" &>"$WORK/apt.log"; then
    rm -rf "$1"
    mv "$WORK/turbojpeg/files" "$1"
  else
    say "No libturbojpeg: apt-get could not download it: $(tail -n 2 "$WORK/apt.log" | tr '\n' ' ')"
  fi
}

# Ubuntu calls it libturbojpeg.
fetch_turbojpeg() { apt-get download --quiet libturbojpeg0 || apt-get download --quiet libturbojpeg; }
