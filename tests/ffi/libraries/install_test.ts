// Installing: whole or not at all. A stand-in for pip hands out small wheels; the set-up for these tests ran the real one.

import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname, join } from "paths";
import { UserError } from "../../../core/base/errors.ts";
import { installLibtorch, installMpich } from "../../../ffi/libraries/install.ts";
import { CUDA_RELEASES, MPICH, NEWEST, RELEASES } from "../../../ffi/libraries/releases.ts";
import { type Env, findLibtorch, installedName } from "../../../ffi/libraries/find.ts";
import { findMpi } from "../../../ffi/mpi/find.ts";
import { fakeElf, fakeTorch, inTemp } from "./fake_libtorch.ts";
import { assertRefusal } from "../../sentences.ts";

const [CPU, CUDA] = ["2.15.0-cpu", "2.15.0-cuda"].map((name) => installedName(name, Deno.build.arch));
const OTHER = Deno.build.arch === "x86_64" ? "aarch64" : "x86_64";

/** An environment whose python3 is the real one, but for `-m pip download`, which runs `pip` (a shell script's body). */
async function withPip(folder: string, pip: string): Promise<Env> {
  await makeWheel(folder);
  const bin = join(folder, "bin");
  await Deno.mkdir(bin);
  const real = (await shell("command -v python3")).trim();
  const script = `#!/bin/bash\nif [[ $* != "-m pip download"* ]]; then exec ${real} "$@"; fi\n` +
    `echo x >>"${folder}/downloads"\ndest="\${@: -1}"\n${pip}\n`;
  await Deno.writeTextFile(join(bin, "python3"), script, { mode: 0o755 });
  return {
    ...Deno.env.toObject(),
    PATH: `${bin}:${Deno.env.get("PATH")}`,
    HPCTRAIN_CACHE: join(folder, "cache"),
  };
}

async function makeWheel(folder: string): Promise<void> {
  const lib = fakeTorch(join(folder, "wheel"), "2.15.0+cu132");
  for (const name of ["libtorch_cuda.so", "libtorch_python.so", "libshm.so", "libgomp.so.1"]) {
    await Deno.writeFile(join(lib, name), fakeElf());
  }
  await shell(`cd ${folder}/wheel && python3 -m zipfile -c ../torch.whl torch`);
}

async function shell(script: string): Promise<string> {
  const { stdout } = await new Deno.Command("bash", { args: ["-c", script] }).output();
  return new TextDecoder().decode(stdout);
}

const names = (path: string) => [...Deno.readDirSync(path)].map((entry) => entry.name).sort();

Deno.test("takes what the CPU library needs out of the wheels, and leaves only that", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `cp ${folder}/torch.whl "$dest/"`);
    const lines: string[] = [];
    const { dir, version } = await installLibtorch({ env, say: (line) => lines.push(line) });
    assertEquals(version, [2, 15, 0]);
    assertEquals(names(dir), ["libc10.so", "libgomp.so.1", "libtorch_cpu.so", "version.py"]);
    assertEquals(names(join(folder, "cache/libtorch")), [".lock", CPU]);
    assert(lines[0].startsWith("Downloading PyTorch 2.15.0's CPU library (5"), lines[0]);
  }));

Deno.test("several at once download once, and a second time not at all", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `sleep 0.3; cp ${folder}/torch.whl "$dest/"`);
    const both = await Promise.all([installLibtorch({ env }), installLibtorch({ env })]);
    await installLibtorch({ env });
    assertEquals(both[0].dir, both[1].dir);
    const { wheels } = RELEASES[NEWEST][Deno.build.arch];
    assertEquals(Deno.readTextFileSync(join(folder, "downloads")), "x\n".repeat(wheels.length));
  }));

Deno.test("CUDA's libraries keep the wheels' folders, and a driver gets the newest that it can serve", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `cp ${folder}/torch.whl "$dest/"`);
    const { dir, gpu } = await installLibtorch({ env, cuda: "13.0" });
    assertEquals(dir, join(folder, "cache/libtorch", CUDA, "torch/lib"));
    assertEquals(gpu, "cuda");
    assertEquals(names(dir), ["libc10.so", "libgomp.so.1", "libtorch_cpu.so", "libtorch_cuda.so"]);
    const older = await installLibtorch({ env, cuda: "12.4" });
    assertEquals(
      older.dir,
      join(folder, "cache/libtorch", installedName("2.10.0-cuda", Deno.build.arch), "torch/lib"),
    );
    await assertRejects(() => installLibtorch({ env, cuda: "11.8" }), UserError, "CUDA 11.8 is too old");
    assertRefusal(
      "environment",
      "ffi/libraries/install: built cuda machine",
      await assertRejects(() => installLibtorch({ env, cuda: "12.4", version: "2.15.0" }), UserError),
    );
  }));

Deno.test("a second attempt downloads what the first did not get", () =>
  inTemp(async (folder) => {
    const count = CUDA_RELEASES[NEWEST][Deno.build.arch].wheels.length;
    const third = `[[ $(wc -l <"${folder}/downloads") != 3 ]] || { echo 'ERROR: no route' >&2; exit 1; }`;
    const env = await withPip(folder, `${third}\ncp ${folder}/torch.whl "$dest/"`);
    await assertRejects(() => installLibtorch({ env, cuda: "13.2" }), UserError, "no route");
    assertEquals(names(join(folder, "cache/libtorch")), [".lock", `.wheels-${CUDA}`]);
    await installLibtorch({ env, cuda: "13.2" });
    assertEquals(Deno.readTextFileSync(join(folder, "downloads")), "x\n".repeat(count + 1));
    assertEquals(names(join(folder, "cache/libtorch")), [".lock", CUDA]);
  }));

Deno.test("what a killed installation left is removed by the next", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `cp ${folder}/torch.whl "$dest/"`);
    Deno.mkdirSync(join(folder, "cache/libtorch/.partial-1/wheels"), { recursive: true });
    Deno.mkdirSync(join(folder, "cache/libtorch", CPU, "lib"), { recursive: true }); // no installed.json in it
    await installLibtorch({ env });
    assertEquals(names(join(folder, "cache/libtorch")), [".lock", CPU]);
  }));

Deno.test("libraries for nodes of another architecture stand beside this machine's own, from the wheels for those", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `echo "$@" >>"${folder}/asked"; cp ${folder}/torch.whl "$dest/"`);
    const machine = OTHER === "x86_64" ? 62 : 183;
    const lib = fakeTorch(join(folder, "other"), "2.15.0+cu132", { machine });
    await Deno.writeFile(join(lib, "libc10.so"), fakeElf({ needed: ["libc.so.6"], machine }));
    await installLibtorch({ env });
    await assertRejects(() => installLibtorch({ env, architecture: OTHER }), UserError, `not for ${OTHER}`);
    await shell(`cd ${folder}/other && python3 -m zipfile -c ../torch.whl torch`);
    const other = await installLibtorch({ env, architecture: OTHER });
    assertEquals(other.dir, join(folder, "cache/libtorch", installedName("2.15.0-cpu", OTHER), "lib"));
    assertEquals(
      findLibtorch({ env: { HPCTRAIN_CACHE: env.HPCTRAIN_CACHE, HOME: folder }, exeDir: folder }).chosen?.dir,
      join(folder, "cache/libtorch", CPU, "lib"),
    );
    const asked = Deno.readTextFileSync(join(folder, "asked")).trim().split("\n").at(-1)!;
    assertEquals([asked.includes(`manylinux_2_28_${OTHER}`), asked.includes(Deno.build.arch)], [true, false]);
  }));

Deno.test("MPICH comes with its launcher, fit to be started, and without what only compilers need", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `cp ${folder}/mpich.whl "$dest/"`);
    const data = join(folder, "mpich/mpich-5.0.2.data/data");
    for (const file of ["bin/mpiexec", "lib/libmpi.so.12", "lib/mpich/libucp.so.0", "include/mpi.h"]) {
      await Deno.mkdir(dirname(join(data, file)), { recursive: true });
      await Deno.writeFile(join(data, file), fakeElf());
    }
    await shell(`cd ${folder}/mpich && python3 -m zipfile -c ../mpich.whl mpich-5.0.2.data`);
    const home = await installMpich(env);
    assertEquals(home, join(folder, "cache/mpi", installedName("mpich-5.0.2", Deno.build.arch)));
    assertEquals(names(home), ["bin", "installed.json", "lib"]);
    assertEquals(Deno.statSync(join(home, "bin/mpiexec")).mode! & 0o111, 0o111);
    assertEquals(names(join(home, "lib/mpich")), ["libucp.so.0"]);
    // As a launcher's rank, so that another MPI of this machine is not what is found.
    const { usable } = findMpi({ ...env, PMI_SIZE: "2" }, true);
    assert(usable.some(({ path }) => path === join(home, "lib/libmpi.so.12")));
  }));

Deno.test("users get the MPICH that the tests start ranks with", () => {
  const pins = Deno.readTextFileSync(new URL("../../../scripts/pins/mpi.txt", import.meta.url));
  for (const { requirement, sha256 } of Object.values(MPICH).flatMap(({ wheels }) => wheels)) {
    assert(pins.includes(requirement) && pins.includes(sha256), `${requirement} ${sha256}`);
  }
});

Deno.test("a wheel without MPICH's library is refused", () =>
  inTemp(async (folder) => {
    const env = await withPip(folder, `cp ${folder}/torch.whl "$dest/"`);
    const error = await assertRejects(() => installMpich(env), UserError);
    assert(
      /MPICH 5\.0\.2 was downloaded but can't be used here: libmpi\.so\.12 is missing/.test(error.message),
    );
    assertEquals(names(join(folder, "cache/mpi")), [".lock"]);
  }));

const failures: [name: string, pip: string, sentence: RegExp][] = [
  ["pip is missing", "echo 'No module named pip' >&2; exit 1", /no pip.*ensurepip/],
  ["the disk is full", "echo 'No space left on device' >&2; exit 1", /disk or quota is full.*HPCTRAIN_CACHE/],
  [
    "there is no network",
    "echo 'ERROR: no route' >&2; exit 1",
    /could not be downloaded:\n {2}ERROR: no route\n.*no network/,
  ],
  ["the wheel is damaged", 'echo junk >"$dest/torch.whl"', /could not be unpacked/],
  [
    "the wheel lacks the library",
    'cd "$dest"; python3 -m zipfile -c t.whl .',
    /can't be used here.*no libtorch_cpu\.so/,
  ],
];
for (const [name, pip, sentence] of failures) {
  Deno.test(`when ${name} there is a sentence and nothing half-made`, () =>
    inTemp(async (folder) => {
      const env = await withPip(folder, pip);
      const error = await assertRejects(() => installLibtorch({ env }), UserError);
      assert(sentence.test(error.message), error.message);
      assertEquals(error.exitCode, 7);
      assertEquals(names(join(folder, "cache/libtorch")), [".lock"]);
    }));
}

Deno.test("the real pip refuses a wheel whose hash is not the pinned one", () =>
  inTemp(async (folder) => {
    await makeWheel(folder);
    const metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n";
    const platform = `manylinux_2_28_${Deno.build.arch}`;
    Deno.mkdirSync(join(folder, "wheel/torch-2.15.0.dist-info"));
    Deno.writeTextFileSync(join(folder, "wheel/torch-2.15.0.dist-info/METADATA"), metadata);
    Deno.mkdirSync(join(folder, "links"));
    await shell(
      `cd ${folder}/wheel && python3 -m zipfile -c ../links/torch-2.15.0-cp311-cp311-${platform}.whl torch torch-2.15.0.dist-info`,
    );
    const env = {
      ...Deno.env.toObject(),
      HPCTRAIN_CACHE: join(folder, "cache"),
      PIP_NO_INDEX: "1",
      PIP_FIND_LINKS: join(folder, "links"),
    };
    const error = await assertRejects(() => installLibtorch({ env }), UserError);
    assert(/hash differs/.test(error.message), error.message);
    assertEquals(names(join(folder, "cache/libtorch")), [".lock"]);
  }));

Deno.test("without python3 the sentence says what to do instead", () =>
  inTemp(async (folder) => {
    const env = { HOME: folder, PATH: folder };
    const error = await assertRejects(() => installLibtorch({ env }), UserError);
    assert(/no python3 on PATH.*copy the cache folder/.test(error.message), error.message);
  }));

Deno.test("an unknown version and an unwritable cache are refused", async () => {
  await assertRejects(() => installLibtorch({ version: "2.3.1" }), UserError, "are 2.15.0 and 2.10.0");
  const env = { HPCTRAIN_CACHE: "/dev/null/cache" };
  await assertRejects(() => installLibtorch({ env }), UserError, "can't be made");
});
