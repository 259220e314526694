// What `hpctrain launch` refuses before it starts anything.
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { launch, localRanks } from "../../commands/run/launch.ts";
import { cpuCount } from "../../core/base/topology.ts";
import { gpuCount } from "../../core/base/gpus.ts";
import { madeOf } from "../core/base/made_topology.ts";
import { mpiLauncher } from "../../core/ranks/mpi/launcher.ts";
import { UserError } from "../../core/base/errors.ts";
import { mpich, openMpi } from "../mpi.ts";
import { assertRefusal, sentenceNamed } from "../sentences.ts";

const CPU = ["--", "--model=mlp", "--data-type=synthetic", "--device=cpu"];

for (
  const [words, kind, sentence] of [
    [
      ["-n=2", "pak", "a", "b"],
      "usage",
      sentenceNamed("commands/launch: launch starts train"),
    ],
    [["-n=2", ...CPU, "--epochs=many"], "usage", "--epochs"],
  ] as const
) {
  Deno.test(`launch ${words.join(" ")} is refused: ${sentence}`, async () => {
    const error = await assertRejects(() => launch([...words]), UserError, sentence);
    assertEquals(error.kind, kind);
  });
}

Deno.test("without -n there is a rank on each GPU, or on each of several NUMA domains, or a sentence", () => {
  const ranks = (asked: Parameters<typeof localRanks>[0]["ranks"], gpus: number, domains: number) =>
    localRanks({ ranks: asked }, gpus, madeOf(...Array.from({ length: domains }, () => 16)));
  assertEquals([ranks(null, 4, 2), ranks(null, 0, 2), ranks(null, 0, 8)], [4, 2, 8]);
  assertEquals([ranks("auto", 4, 8), ranks("auto", 0, 8), ranks("numa", 4, 8)], [4, 8, 8]);
  assertEquals([ranks("auto", 0, 1), ranks("cpu", 4, 8)], [cpuCount(), cpuCount()]); // torchrun's meaning
  assertEquals(ranks(3, 0, 8), 3);
  assertRefusal(
    "usage",
    "commands/launch: launch needs number",
    assertThrows(() => ranks(null, 0, 1), UserError),
  );
});

Deno.test("GPUs are counted by what this process may see of them", () => {
  assertEquals(gpuCount({ CUDA_VISIBLE_DEVICES: "2,3" }), 2);
  assertEquals(gpuCount({ CUDA_VISIBLE_DEVICES: "" }), 0);
  assertEquals(gpuCount({ CUDA_VISIBLE_DEVICES: "-1" }), 0);
});

Deno.test("ranks are started by the launcher of the library that they will load", () => {
  for (const { folder, library } of [openMpi(), mpich()]) {
    const { command, library: { path } } = mpiLauncher(
      { HPCTRAIN_MPI: library, PATH: "/usr/bin:/bin" },
      null,
    );
    assertEquals([command[0].startsWith(`${folder}/bin/mpi`), path], [true, library]);
  }
});

Deno.test("a library without its launcher is refused, with the place where it was looked for", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/lib`);
    await Deno.copyFile(await Deno.realPath(openMpi().library), `${folder}/lib/libmpi.so.40`);
    const env = { HPCTRAIN_MPI: `${folder}/lib`, PATH: `${mpich().folder}/bin` }; // another library's launcher
    assertRefusal(
      "environment",
      "commands/launch: open mpi found",
      await assertRejects(async () => await mpiLauncher(env, null), UserError),
      { folder },
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
