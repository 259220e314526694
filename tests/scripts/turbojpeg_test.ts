// scripts/lib/turbojpeg.sh: one libturbojpeg for tests and benchmarks, whatever the machine has.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "paths";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";
import { assertSentence } from "../sentences.ts";

const LIB = fromFileUrl(new URL("../../scripts/lib/", import.meta.url));
const PLACE = `usr/lib/${Deno.build.arch}-linux-gnu/libturbojpeg.so.0`;

/** What ensure_turbojpeg finds and says, on a machine of which these bash functions tell. */
async function ensure(cache: string, machine: string): Promise<{ found: string; said: string }> {
  const script = `set -euo pipefail; source ${LIB}setup.sh; source ${LIB}turbojpeg.sh
    ${machine}
    ensure_turbojpeg; echo "\${HPCTRAIN_TURBOJPEG:-none}"`;
  const { success, stdout, stderr } = await new Deno.Command("bash", {
    args: ["-c", script],
    clearEnv: true,
    env: { PATH: Deno.env.get("PATH")!, HOSTNAME: "here", HPCTRAIN_CACHE: cache },
  }).output();
  const said = new TextDecoder().decode(stderr);
  assert(success, said);
  return { found: new TextDecoder().decode(stdout).trim(), said };
}

const NONE = "ldconfig() { :; }";
/** An apt-get whose package holds one file, and which only knows of it after an update. */
const DEBIAN = `${NONE}
  apt-get() {
    case $1 in
      update) touch "$CACHE/updated" ;;
      download) [[ -e $CACHE/updated ]] && touch libturbojpeg0_2.1.5_amd64.deb ;;
    esac
  }
  dpkg-deb() { mkdir -p "$3/\${PLACE%/*}"; touch "$3/$PLACE"; }
  PLACE=${PLACE}`;

Deno.test("a machine's own libturbojpeg is left to be found, and one that is named is kept", () =>
  inTemp(async (cache) => {
    const own = await ensure(cache, `ldconfig() { echo "libturbojpeg.so.0 (libc6,x86-64)"; }`);
    assertEquals(own, { found: "none", said: "" });
    const named = await ensure(cache, `${NONE}; export HPCTRAIN_TURBOJPEG=/mine.so`);
    assertEquals(named.found, "/mine.so");
  }));

Deno.test("Debian's package is unpacked into the cache, once", () =>
  inTemp(async (cache) => {
    const place = join(cache, `turbojpeg-${Deno.build.arch}`, PLACE);
    assertEquals((await ensure(cache, DEBIAN)).found, place);
    assertEquals((await ensure(cache, `${NONE}; apt-get() { exit 9; }`)).found, place);
    const left = [...Deno.readDirSync(cache)].map(({ name }) => name).filter((name) =>
      name.startsWith(".partial")
    );
    assertEquals(left, []);
  }));

Deno.test("without the package or without apt-get the tests go on, and a line says why", () =>
  inTemp(async (cache) => {
    const failing = await ensure(
      cache,
      `${NONE}; apt-get() { echo "E: no network"; return 100; }; dpkg-deb() { :; }`,
    );
    assertEquals(failing.found, "none");
    assertSentence("scripts/turbojpeg: libturbojpeg apt-get could", failing.said);
    const other = await ensure(cache, `${NONE}; command() { return 1; }`);
    assertSentence("scripts/turbojpeg: libturbojpeg machine none", other.said);
  }));
