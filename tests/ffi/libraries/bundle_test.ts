// Bundles: what one machine installed, another without internet gets whole or not at all.
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { dirname, join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { bundleLibtorch, installBundle, installedFor } from "../../../ffi/libraries/bundle.ts";
import {
  checkLibtorch,
  findLibtorch,
  installedName,
  isLibtorch,
  type Libtorch,
} from "../../../ffi/libraries/find.ts";
import { fakeElf, fakeTorch, inTemp } from "./fake_libtorch.ts";
import { assertRefusal } from "../../sentences.ts";

const FOLDER = installedName("2.15.0-cuda", Deno.build.arch);
const OTHER = Deno.build.arch === "x86_64" ? "aarch64" : "x86_64";

const environmentOf = (cache: string) => ({ PATH: Deno.env.get("PATH")!, HPCTRAIN_CACHE: cache });

/** A CUDA libtorch in the cache of `folder`, and its bundle. */
async function bundled(folder: string): Promise<{ libtorch: Libtorch; file: string }> {
  const env = environmentOf(join(folder, "here"));
  const lib = fakeTorch(join(folder, "here/libtorch", FOLDER), "2.15.0+cu132");
  Deno.writeFileSync(join(lib, "libtorch_cuda.so"), fakeElf({ needed: ["libc10.so"] }));
  const libtorch = checkLibtorch(lib, "a test", env);
  assert(isLibtorch(libtorch));
  const file = join(folder, "libtorch.tar.gz");
  await bundleLibtorch([libtorch], file, env);
  return { libtorch, file };
}

async function tar(...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("tar", { args }).output();
  assert(success, new TextDecoder().decode(stderr));
}

const names = (path: string) => [...Deno.readDirSync(path)].map(({ name }) => name).sort();

Deno.test("a bundle is installed with the same files, and found", () =>
  inTemp(async (folder) => {
    const { libtorch, file } = await bundled(folder);
    const env = environmentOf(join(folder, "there"));
    const installed = await installBundle(file, env);
    assertEquals(installed.dir, join(folder, `there/libtorch/${FOLDER}/torch/lib`));
    assertEquals([installed.versionText, installed.gpu], ["2.15.0+cu132", "cuda"]);
    assertEquals(names(installed.dir), names(libtorch.dir));
    assertEquals(findLibtorch({ env, exeDir: folder }).chosen?.dir, installed.dir);
    assertEquals(names(join(folder, "there/libtorch")), [FOLDER]);
    assertEquals(names(join(folder, "there/libtorch", FOLDER)), ["torch"]);
  }));

Deno.test("what was not installed by hpctrain is not bundled", () =>
  inTemp(async (folder) => {
    const lib = fakeTorch(folder, "2.15.0+cu132");
    const env = environmentOf(join(folder, "here"));
    const libtorch = checkLibtorch(lib, "a test", env);
    assert(isLibtorch(libtorch));
    await assertRejects(
      () => bundleLibtorch([libtorch], join(folder, "b.tar"), env),
      UserError,
      "was not installed by hpctrain",
    );
  }));

const damage: [name: string, spoil: (unpacked: string) => void, sentence: string][] = [
  ["a file with another byte", (folder) => {
    using file = Deno.openSync(join(folder, `${FOLDER}/torch/lib/libc10.so`), { write: true });
    file.writeSync(Uint8Array.of(1));
  }, "torch/lib/libc10.so was damaged"],
  ["a file too many", (folder) => {
    Deno.writeTextFileSync(join(folder, `${FOLDER}/torch/lib/libevil.so`), "");
  }, "its files are not those of its list"],
  ["a link", (folder) => {
    Deno.symlinkSync("/etc", join(folder, `${FOLDER}/nvidia`));
  }, "is a link or a device"],
  ["no list", (folder) => {
    Deno.removeSync(join(folder, `${FOLDER}/bundle.json`));
  }, "its list of contents is missing"],
  ["the list of another architecture", (folder) => {
    const path = join(folder, `${FOLDER}/bundle.json`);
    const list = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...list, arch: "riscv64" }));
  }, "it is for machines that are riscv64"],
  ["another folder", (folder) => {
    Deno.renameSync(join(folder, FOLDER), join(folder, "home"));
  }, "it holds home"],
];
for (const [name, spoil, sentence] of damage) {
  Deno.test(`a bundle with ${name} installs nothing`, () =>
    inTemp(async (folder) => {
      const { file } = await bundled(folder);
      const unpacked = join(folder, "unpacked"), spoilt = join(folder, "spoilt.tar");
      Deno.mkdirSync(unpacked);
      await tar("-xf", file, "-C", unpacked);
      spoil(unpacked);
      await tar("-cf", spoilt, "-C", unpacked, ...names(unpacked));
      const env = environmentOf(join(folder, "there"));
      const error = await assertRejects(() => installBundle(spoilt, env), UserError);
      assert(error.message.includes(sentence), error.message);
      assertEquals(names(join(folder, "there/libtorch")), []);
    }));
}

Deno.test("a truncated bundle installs nothing, and leaves the one that is there", () =>
  inTemp(async (folder) => {
    const { libtorch, file } = await bundled(folder);
    const bytes = Deno.readFileSync(file);
    Deno.writeFileSync(file, bytes.subarray(0, bytes.length / 2));
    const env = environmentOf(join(folder, "here"));
    await assertRejects(() => installBundle(file, env), UserError, "can't be installed");
    assertEquals(names(join(folder, "here/libtorch")), [FOLDER]);
    assert(names(libtorch.dir).includes("libtorch_cpu.so"), dirname(libtorch.dir));
  }));

/** A CPU libtorch of this architecture in the cache "here". */
function installed(folder: string, architecture: string): Libtorch {
  const machine = architecture === "x86_64" ? 62 : 183;
  const root = join(folder, "here/libtorch", installedName("2.15.0-cpu", architecture), "lib");
  fakeTorch(folder, "2.15.0", { machine });
  Deno.mkdirSync(dirname(root), { recursive: true });
  Deno.renameSync(join(folder, "torch/lib"), root);
  Deno.writeFileSync(join(root, "libc10.so"), fakeElf({ needed: ["libc.so.6"], machine }));
  Deno.renameSync(join(folder, "torch/version.py"), join(root, "version.py"));
  return installedFor(architecture, environmentOf(join(folder, "here")));
}

Deno.test("one bundle has the libraries of both architectures, and each machine takes its own of them", () =>
  inTemp(async (folder) => {
    const both = [Deno.build.arch, OTHER].map((architecture) => installed(folder, architecture));
    const file = join(folder, "both.tar"), env = environmentOf(join(folder, "there"));
    await bundleLibtorch(both, file, environmentOf(join(folder, "here")));
    const own = await installBundle(file, env);
    const folders = [Deno.build.arch, OTHER].map((name) => installedName("2.15.0-cpu", name));
    assertEquals(names(join(folder, "there/libtorch")), folders.toSorted());
    assertEquals(own.dir, join(folder, "there/libtorch", folders[0], "lib"));
    assertEquals(installedFor(OTHER, env).dir, join(folder, "there/libtorch", folders[1], "lib"));
    const { chosen, rejected } = findLibtorch({ env, exeDir: folder, all: true });
    assertEquals(chosen?.dir, own.dir);
    assertEquals(rejected.map(({ dir, architecture }) => [dir, architecture]), [[
      join(folder, "there/libtorch", folders[1], "lib"),
      OTHER,
    ]]);
  }));

Deno.test("a bundle for other machines alone is installed where the user says so, and refused elsewhere", () =>
  inTemp(async (folder) => {
    const file = join(folder, "other.tar"), env = environmentOf(join(folder, "there"));
    await bundleLibtorch([installed(folder, OTHER)], file, environmentOf(join(folder, "here")));
    assertRefusal(
      "environment",
      "ffi/libraries/bundle: machines machine nothing",
      await assertRejects(() => installBundle(file, env), UserError),
      { OTHER, arch: Deno.build.arch },
    );
    assertEquals(names(join(folder, "there/libtorch")), []);
    const other = await installBundle(file, env, OTHER);
    assertEquals(other.dir, join(folder, "there/libtorch", installedName("2.15.0-cpu", OTHER), "lib"));
    await assertRejects(
      () => installBundle(file, env, Deno.build.arch),
      UserError,
      `add --arch ${OTHER}`,
    );
    assertRefusal(
      "environment",
      "ffi/libraries/bundle: install first hpctrain",
      assertThrows(() => installedFor(OTHER, environmentOf(join(folder, "nowhere"))), UserError),
      { OTHER },
    );
  }));
