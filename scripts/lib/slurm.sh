# SLURM for the tests: Debian's own packages, unpacked into the cache and not installed; scripts/slurm-testbed lays them over
# /usr in namespaces of its own. Needs setup.sh.

# PMIx and libevent are what Open MPI is started through.
SLURM_PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge libmunge2 libhwloc15 libnuma1 libpmix2
  libevent-core-2.1-7 libevent-pthreads-2.1-7)

# Sets HPCTRAIN_SLURM, a folder with usr/, or leaves it, having said why. What it names already stays.
ensure_slurm() {
  [[ -z ${HPCTRAIN_SLURM:-} ]] || return 0
  local folder=$CACHE/slurm-$(uname -m)-$(printf '%s ' "${SLURM_PACKAGES[@]}" | sha256sum | cut -c 1-8) why
  why=$(slurm_is_impossible) && { say "No SLURM to test with: $why"; return 0; }
  if [[ ! -d $folder ]]; then
    hold_lock slurm
    [[ -d $folder ]] || unpack_slurm "$folder"
    release_lock
  fi
  [[ ! -d $folder ]] || export HPCTRAIN_SLURM=$folder
}

# Says why no cluster can be made here; fails where one can.
slurm_is_impossible() {
  local tool
  [[ $(id -u) == 0 ]] || { echo "only root can make nodes (namespaces, mounts, device files)."; return 0; }
  for tool in unshare nsenter ip mount mknod; do
    command -v "$tool" >/dev/null || { echo "there is no $tool (Debian: util-linux, iproute2)."; return 0; }
  done
  unshare --pid --fork --mount --uts --net true 2>/dev/null || { echo "this machine lets nobody make namespaces."; return 0; }
  unshare --mount mount -t overlay overlay -o lowerdir=/usr/sbin:/usr/bin /usr/bin 2>/dev/null ||
    { echo "this machine lets nobody mount an overlay."; return 0; }
  return 1
}

unpack_slurm() { # FOLDER
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    { say "No SLURM to test with: its packages are Debian's, and here is no apt-get."; return 0; }
  make_work
  need_megabytes 60 "SLURM"
  say "Downloading SLURM, which tests submit jobs to (4 MB, once)."
  mkdir -p "$WORK/slurm/files"
  if (
    set -e
    cd "$WORK/slurm"
    # The lists of packages may be missing or old.
    apt-get download --quiet "${SLURM_PACKAGES[@]}" || { apt-get update && apt-get download --quiet "${SLURM_PACKAGES[@]}"; }
    for package in *.deb; do dpkg-deb -x "$package" files; done
    # What an installation makes: names by alternatives, and the one by which the plug-in for PMIx asks for its library.
    for name in slurmctld slurmd slurmstepd; do ln -s "$name-wlm" "files/usr/sbin/$name"; done
    for name in files/usr/lib/*/pmix2/lib/libpmix.so.2; do ln -s libpmix.so.2 "${name%.2}"; done
  ) &>"$WORK/apt.log"; then
    mv "$WORK/slurm/files" "$1"
  else
    say "No SLURM to test with: apt-get could not download it: $(tail -n 2 "$WORK/apt.log" | tr '\n' ' ')"
  fi
}
