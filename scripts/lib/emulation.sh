# An emulated ARM processor for tests: Debian's QEMU, and the few libraries of arm64 that programs need, unpacked into the cache and
# not installed. Programs for aarch64 then start like any other inside `emulated`, and nowhere else. Needs setup.sh and deno.sh.

# Sets EMULATION, a folder with qemu/ and root/. What it names already stays.
ensure_emulation() {
  [[ -z ${EMULATION:-} ]] || return 0
  local pins=$ROOT/scripts/pins/emulation.txt tool
  for tool in unshare mount apt-get dpkg-deb sha256sum; do
    command -v "$tool" >/dev/null || fail "There is no $tool on PATH, which is needed to emulate an ARM processor (Debian: util-linux, apt, dpkg)."
  done
  EMULATION=$CACHE/emulation-$(sha256sum "$pins" | cut -c 1-12)
  if [[ ! -d $EMULATION ]]; then
    hold_lock emulation
    [[ -d $EMULATION ]] || unpack_emulation "$pins"
    release_lock
  fi
  # shellcheck disable=SC2119
  emulated true || fail "Programs for aarch64 can't be started here, though QEMU is: Linux 6.7 or newer is needed, with" \
    "binfmt_misc and namespaces of one's own (unshare --user --mount)."
}

unpack_emulation() { # PINS
  make_work
  need_megabytes 900 "QEMU and libraries of arm64"
  say "Downloading QEMU and libraries of arm64 from Debian (75 MB, once)."
  local apt=$WORK/apt made=$WORK/emulation name architecture version hash file core
  mkdir -p "$apt"/{state,lists/partial,cache/archives/partial,debs} "$made"/{qemu,root}
  own_apt "$apt"
  apt-get "${APT[@]}" update &>"$WORK/apt.log" || apt_failed
  while read -r name architecture version hash; do
    file=$(download_deb "$name:$architecture" "$version" "$apt/debs") || apt_failed
    [[ $file == *"$(sed 's/:/%3a/' <<<"$version")"* ]] || { say "$name $version is not Debian's any more: taking ${file##*/}."; hash=; }
    [[ -z $hash || $(sha256sum "$file" | cut -d ' ' -f 1) == "$hash" ]] ||
      fail "$name $version could not be downloaded: what arrived is not what is pinned (its hash differs)."
    if [[ $architecture == amd64 ]]; then dpkg-deb -x "$file" "$made/qemu"; else dpkg-deb -x "$file" "$made/root"; fi
  done < <(grep -v '^#' "$1")
  ln -sfn usr/lib "$made/root/lib"
  # oneDNN asks the kernel what the processor is, and QEMU shows no such files: a Neoverse N1.
  for core in 0 1; do
    mkdir -p "$made/root/sys/devices/system/cpu/cpu$core/regs/identification"
    echo 0x00000000410fd4f0 >"$made/root/sys/devices/system/cpu/cpu$core/regs/identification/midr_el1"
  done
  find "$made/qemu/usr/bin" -type f ! -name qemu-aarch64 -delete
  mv "$made" "$EMULATION"
}

# Sets APT: options by which apt-get knows trixie alone, from the mirror that this machine uses for Debian, and none of its state.
own_apt() { # FOLDER
  local mirror=${HPCTRAIN_DEBIAN_MIRROR:-} keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n '/security/d; s/^Debian main //p' | head -n 1)
  [[ -n $mirror && -e $keys ]] || fail "This machine's apt-get knows no mirror of Debian or not its keys (debian-archive-keyring)," \
    "from which QEMU comes. Name one with HPCTRAIN_DEBIAN_MIRROR."
  echo "deb [arch=amd64,arm64 signed-by=$keys] $mirror trixie main" >"$1/sources.list"
  : >"$1/status"
  APT=(-o "Dir::State=$1/state" -o "Dir::State::Lists=$1/lists" -o "Dir::State::status=$1/status" -o "Dir::Cache=$1/cache"
    -o "Dir::Etc::SourceList=$1/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=)
}

# Prints the file's path. The newest is taken where Debian has the version no more.
download_deb() { # NAME VERSION FOLDER
  mkdir -p "$3/$1"
  (cd "$3/$1" && { apt-get "${APT[@]}" download "$1=$2" || apt-get "${APT[@]}" download "$1"; }) &>>"$WORK/apt.log" || return 1
  echo "$3/$1"/*.deb
}

apt_failed() { fail "QEMU and libraries of arm64 could not be downloaded: apt-get says: $(tail -n 2 "$WORK/apt.log" | tr '\n' ' ')"; }

# Runs a command where programs for aarch64 start: the kernel gives them to QEMU in a namespace of this command alone.
emulated() {
  # shellcheck disable=SC2016
  QEMU_LD_PREFIX=$EMULATION/root unshare --user --map-root-user --mount bash -c '
    mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || exit 1
    printf %s "$1" >/proc/sys/fs/binfmt_misc/register || exit 1
    shift
    exec "$@"' emulated ":aarch64:M::$ELF_AARCH64:$ELF_MASK:$EMULATION/qemu/usr/bin/qemu-aarch64:OCF" "$@"
}

# The head of an ELF file of 64 bits for aarch64, and which of its bits count.
ELF_AARCH64='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
ELF_MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# Sets ARM_DENO to Deno for aarch64.
ensure_arm_deno() {
  ARM_DENO=$CACHE/deno-$DENO_VERSION-aarch64/deno
  [[ ! -x $ARM_DENO ]] || return 0
  hold_lock deno
  [[ -x $ARM_DENO ]] || fetch_deno aarch64
  release_lock
}
