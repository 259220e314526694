// A machine without a usable libtorch: each reason as a sentence with what to do, exit code 7, and nothing written.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { type FakeElf, fakeTorch } from "../ffi/libraries/fake_libtorch.ts";
import { bareMachine, filesIn, inTemp, run, TINY } from "./program.ts";

const OTHER = Deno.build.arch === "x86_64" ? 183 : 62;
const OTHER_NAME = Deno.build.arch === "x86_64" ? "aarch64" : "x86_64";

/** Trains in an empty folder, on a machine whose only libtorch is what `make` puts into a folder, or none. */
async function refused(
  says: RegExp[],
  make: ((folder: string) => string) | null,
  give: (dir: string) => { args?: string[]; env?: Record<string, string> } = (dir) => ({
    args: ["--libtorch", dir],
  }),
): Promise<void> {
  await inTemp(async (folder) => {
    const [home, cwd] = ["home", "work"].map((name) => join(folder, name));
    for (const made of [home, cwd]) Deno.mkdirSync(made);
    const { args = [], env = {} } = make ? give(make(folder)) : {};
    const options = { cwd, env: { ...bareMachine(home), ...env } };
    const { code, stdout, stderr } = await run([...TINY, ...args], options);
    for (const sentence of says) assertMatch(stderr, sentence);
    assertEquals([code, stdout], [7, ""], stderr);
    assertEquals([...filesIn(cwd), ...filesIn(home)].filter((f) => !f.startsWith("deno")), []);
  });
}

const fake = (version?: string, elf?: FakeElf) => (folder: string) => fakeTorch(folder, version, elf);

/** The real one, as a copy that was broken off leaves it: the biggest library is cut. */
function halfUnpacked(folder: string): string {
  const real = Deno.env.get("HPCTRAIN_LIBTORCH")!;
  const dir = join(folder, "half");
  Deno.mkdirSync(dir);
  for (const { name } of Deno.readDirSync(real)) {
    if (name !== "libtorch_cpu.so") Deno.symlinkSync(join(real, name), join(dir, name));
  }
  const head = new Uint8Array(1 << 20);
  using whole = Deno.openSync(join(real, "libtorch_cpu.so"));
  whole.readSync(head);
  Deno.writeFileSync(join(dir, "libtorch_cpu.so"), head);
  return dir;
}

Deno.test("no libtorch anywhere: the sentence says so and three ways to get one", () =>
  refused([/^hpctrain: No libtorch .* was found/, /hpctrain libtorch install/, /--libtorch DIR/], null));

Deno.test("a libtorch that is too old is refused with its version", () =>
  refused([
    /too old: version 2\.9\.1 can't be given lists .*, and 2\.10 or newer is needed/,
    /libtorch install/,
  ], fake("2.9.1")));

Deno.test("a libtorch for another architecture is refused as such", () =>
  refused([
    new RegExp(
      `can't be used .*: libtorch_cpu.so is built for ${OTHER_NAME}, this machine is ${Deno.build.arch}`,
    ),
    /`hpctrain libtorch install`, run here or elsewhere with --arch \w+, downloads one for/,
  ], fake(undefined, { machine: OTHER })));

Deno.test("a libtorch whose biggest library was cut off is refused as truncated", () =>
  refused([/truncated|cut|incomplete|half/i, /half/], halfUnpacked));

Deno.test("a libtorch without libc10 is refused by that name", () =>
  refused([/libc10\.so/], (folder) => {
    const dir = fakeTorch(folder);
    Deno.removeSync(join(dir, "libc10.so"));
    return dir;
  }));

Deno.test("a libtorch that is found by itself and can't be used is named with its reason", () =>
  refused(
    [/No usable libtorch/, /VIRTUAL_ENV/, /too old: version 1\.13\.1/, /libtorch install/],
    (folder) => {
      fakeTorch(join(folder, "venv/lib/python3.11/site-packages"), "1.13.1");
      return join(folder, "venv");
    },
    (dir) => ({ env: { VIRTUAL_ENV: dir } }),
  ));

Deno.test("a folder given by --libtorch that is not there, or holds none, is refused and no other is taken", async () => {
  const elsewhere = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
  const give = (dir: string) => ({ args: ["--libtorch", dir], env: elsewhere });
  await refused([/given by --libtorch .*\/missing.*no such folder/], (f) => join(f, "missing"), give);
  await refused([/given by --libtorch .*no libtorch_cpu\.so/], (f) => f, give);
});

Deno.test("a HPCTRAIN_LIBTORCH that can't be used is named as that", () =>
  refused([/given by HPCTRAIN_LIBTORCH .*no such folder/], (f) => join(f, "missing"), (dir) => ({
    env: { HPCTRAIN_LIBTORCH: dir },
  })));

Deno.test("a library that looks right and can't be loaded ends with the loader's own words", () =>
  refused([/can't be loaded|can't be used/], fake("2.12.1+cpu", { symbols: ["torch_call_dispatcher"] })));
