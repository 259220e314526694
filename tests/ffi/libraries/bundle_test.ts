// Bundles: what one machine installed, another without internet gets whole or not at all.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "@std/path";
import { UserError } from "../../../core/base/errors.ts";
import { bundleLibtorch, installBundle } from "../../../ffi/libraries/bundle.ts";
import { checkLibtorch, findLibtorch, isLibtorch, type Libtorch } from "../../../ffi/libraries/find.ts";
import { fakeElf, fakeTorch, inTemp } from "./fake_libtorch.ts";

const environmentOf = (cache: string) => ({ PATH: Deno.env.get("PATH")!, HPCTRAIN_CACHE: cache });

/** A CUDA libtorch in the cache of `folder`, and its bundle. */
async function bundled(folder: string): Promise<{ libtorch: Libtorch; file: string }> {
  const env = environmentOf(join(folder, "here"));
  const lib = fakeTorch(join(folder, "here/libtorch/2.15.0-cuda"), "2.15.0+cu132");
  Deno.writeFileSync(join(lib, "libtorch_cuda.so"), fakeElf({ needed: ["libc10.so"] }));
  const libtorch = checkLibtorch(lib, "a test", env);
  assert(isLibtorch(libtorch));
  const file = join(folder, "libtorch.tar.gz");
  await bundleLibtorch(libtorch, file, env);
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
    assertEquals(installed.dir, join(folder, "there/libtorch/2.15.0-cuda/torch/lib"));
    assertEquals([installed.versionText, installed.gpu], ["2.15.0+cu132", "cuda"]);
    assertEquals(names(installed.dir), names(libtorch.dir));
    assertEquals(findLibtorch({ env, exeDir: folder }).chosen?.dir, installed.dir);
    assertEquals(names(join(folder, "there/libtorch")), ["2.15.0-cuda"]);
    assertEquals(names(join(folder, "there/libtorch/2.15.0-cuda")), ["torch"]);
  }));

Deno.test("what was not installed by hpctrain is not bundled", () =>
  inTemp(async (folder) => {
    const lib = fakeTorch(folder, "2.15.0+cu132");
    const env = environmentOf(join(folder, "here"));
    const libtorch = checkLibtorch(lib, "a test", env);
    assert(isLibtorch(libtorch));
    await assertRejects(
      () => bundleLibtorch(libtorch, join(folder, "b.tar"), env),
      UserError,
      "was not installed by hpctrain",
    );
  }));

const damage: [name: string, spoil: (unpacked: string) => void, sentence: string][] = [
  ["a file with another byte", (folder) => {
    using file = Deno.openSync(join(folder, "2.15.0-cuda/torch/lib/libc10.so"), { write: true });
    file.writeSync(Uint8Array.of(1));
  }, "torch/lib/libc10.so was damaged"],
  ["a file too many", (folder) => {
    Deno.writeTextFileSync(join(folder, "2.15.0-cuda/torch/lib/libevil.so"), "");
  }, "its files are not those of its list"],
  ["a link", (folder) => {
    Deno.symlinkSync("/etc", join(folder, "2.15.0-cuda/nvidia"));
  }, "is a link or a device"],
  ["no list", (folder) => {
    Deno.removeSync(join(folder, "2.15.0-cuda/bundle.json"));
  }, "its list of contents is missing"],
  ["the list of another architecture", (folder) => {
    const path = join(folder, "2.15.0-cuda/bundle.json");
    const list = JSON.parse(Deno.readTextFileSync(path));
    Deno.writeTextFileSync(path, JSON.stringify({ ...list, arch: "riscv64" }));
  }, "it was made on riscv64"],
  ["another folder", (folder) => {
    Deno.renameSync(join(folder, "2.15.0-cuda"), join(folder, "home"));
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
    assertEquals(names(join(folder, "here/libtorch")), ["2.15.0-cuda"]);
    assert(names(libtorch.dir).includes("libtorch_cpu.so"), dirname(libtorch.dir));
  }));
