# The program under test and a libtorch for it, for scripts that run it. Needs setup.sh and deno.sh.

# Sets HPCTRAIN_EXE and HPCTRAIN_LIBTORCH, building and installing what is missing. What they name already stays.
ensure_program() {
  check_machine
  ensure_deno
  "$ROOT/scripts/build"
  export HPCTRAIN_EXE=${HPCTRAIN_EXE:-$ROOT/dist/hpctrain}
  if [[ -z ${HPCTRAIN_LIBTORCH:-} ]]; then
    "$ROOT/dist/hpctrain" libtorch install 2.15.0
    export HPCTRAIN_LIBTORCH=$(libtorch_folder 2.15.0)
  fi
}
