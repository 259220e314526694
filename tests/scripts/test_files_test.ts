// What `./scripts/test FILTER` sets up: what the chosen tests name, and no more.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "paths";
import { allTestFiles, selectTests, stepsOf } from "../../scripts/lib/test_files.ts";
import { inTemp } from "../ffi/libraries/fake_libtorch.ts";

const ROOT = fromFileUrl(new URL("../../", import.meta.url));

/** Paths of tests are from the root. */
function atRoot<T>(body: () => T): T {
  const here = Deno.cwd();
  Deno.chdir(ROOT);
  try {
    return body();
  } finally {
    Deno.chdir(here);
  }
}

const stepsFor = (filter: string): string[] => atRoot(() => stepsOf(selectTests(filter).files));

Deno.test("what tests name, and what they import names, is set up for them, and no more", () => {
  assertEquals(stepsFor("core/base/suggest"), []);
  for (const step of ["slurm", "chromium", "mpi", "wandb", "libtorch_oldest", "viewers", "formats"]) {
    assert(!stepsFor("core/base/").includes(step), step);
  }
  assertEquals(stepsFor("core/base/memory_test"), ["peer"]); // named by tests/peer.ts
  assertEquals(stepsFor("slurm/requeue"), ["build", "libtorch", "mpi", "slurm"]);
  assertEquals(stepsFor("ffi/tensor_test"), ["libtorch", "libtorch_oldest"]); // run on both
  assert(stepsFor("real_weights").includes("peer")); // into which its libraries are installed
  assert(stepsFor("exported/storm_test").includes("libtorch")); // which the program that it starts opens
  assert(stepsFor("tests/mod_test").includes("libtorch")); // which a device is opened with
  assert(stepsFor("core/train/digits_test").includes("libtorch")); // which the executable looks for
});

Deno.test("each step of the set-up is some test's, and the tests that run others have all", () => {
  const all = atRoot(() => stepsOf(["tests/scripts/deletable_test.ts"]));
  const needed = new Set(
    atRoot(() =>
      allTestFiles().filter((file) => !file.includes("/scripts/")).flatMap((file) => stepsOf([file]))
    ),
  );
  assertEquals(all.filter((step) => !needed.has(step)), []);
});

Deno.test("on a machine that has Deno alone, a filter whose tests need nothing else installs nothing", () =>
  inTemp(async (folder) => {
    const cache = join(folder, "cache"), bin = join(folder, "bin");
    for (const path of [cache, bin]) Deno.mkdirSync(path);
    Deno.symlinkSync(Deno.execPath(), join(bin, "deno"));
    Deno.symlinkSync(Deno.env.get("DENO_DIR")!, join(cache, "deno-dir"));
    const { PATH, HOME = folder } = Deno.env.toObject();
    const { code, stdout, stderr } = await new Deno.Command(join(ROOT, "scripts/test"), {
      args: ["core/base/suggest"],
      clearEnv: true,
      env: { PATH: `${bin}:${PATH}`, HOME, HPCTRAIN_CACHE: cache },
      stdin: "null",
    }).output();
    const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assertEquals(code, 0, said);
    assert(/^\d+ passed, 0 failed$/m.test(said), said);
    assertEquals([...Deno.readDirSync(cache)].map(({ name }) => name), ["deno-dir"], said);
  }));
