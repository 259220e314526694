# What tests look with: a browser for reports, and tmux for the screens of `watch`. Where they are missing, root installs
# Debian's packages. Needs setup.sh.

# Sets HPCTRAIN_CHROMIUM and HPCTRAIN_TMUX, or leaves them, having said why. What they name already stays.
ensure_chromium() {
  [[ -n ${HPCTRAIN_CHROMIUM:-} ]] || first_program chromium chromium-browser google-chrome >/dev/null || install_package chromium
  [[ -n ${HPCTRAIN_TMUX:-} ]] || first_program tmux >/dev/null || install_package tmux
  local found
  [[ -n ${HPCTRAIN_CHROMIUM:-} ]] || ! found=$(first_program chromium chromium-browser google-chrome) || export HPCTRAIN_CHROMIUM=$found
  [[ -n ${HPCTRAIN_TMUX:-} ]] || ! found=$(first_program tmux) || export HPCTRAIN_TMUX=$found
}

first_program() { # NAME...; prints the path of the first that there is
  local name
  for name; do type -P "$name" && return 0; done
  return 1
}

install_package() { # NAME
  if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
    say "No $1: only root of a Debian can have these scripts install it. Install it with the system's packages."
    return 0
  fi
  hold_lock apt
  make_work
  say "Installing Debian's $1, which tests look with (once)."
  # The lists may be missing.
  { apt_install "$1" || { apt-get update && apt_install "$1"; }; } &>"$WORK/apt.log" ||
    say "No $1: apt-get could not install it: $(tail -n 2 "$WORK/apt.log" | tr '\n' ' ')"
  release_lock
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$1"; }
