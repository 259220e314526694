// What a step of many ranks says when it can't train: once, by one of them, with where the value came from.
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { COMMAND, TINY } from "../program.ts";
import { type Bed, MISSING, NEEDS, startBed } from "./bed.ts";

let bed: Bed;
if (!MISSING) {
  Deno.test.beforeAll(async () => void (bed = await startBed()));
  Deno.test.afterAll(() => bed.stop());
}

/** A user's own script: eight ranks on two nodes. */
async function step(name: string, words: string[], before = ""): Promise<{ code: number; said: string[] }> {
  const cwd = join(bed.folder, name);
  Deno.mkdirSync(cwd);
  const script = [
    "#!/bin/bash",
    "#SBATCH --nodes=2 --ntasks-per-node=4 --time=5 --output=out.txt",
    before,
    `srun --kill-on-bad-exit=1 ${[...COMMAND, ...TINY, ...words].join(" ")}`,
  ].join("\n");
  const env = { HPCTRAIN_LIBTORCH: Deno.env.get("HPCTRAIN_LIBTORCH")! };
  const { code } = await bed.end(await bed.submit(script, { cwd, env }), 120);
  const said = Deno.readTextFileSync(join(cwd, "out.txt")).split("\n");
  return { code, said: said.filter((line) => line.startsWith("hpctrain: ")) };
}

for (
  const [what, words, before, code, sentence] of [
    [
      "a value of a file",
      ["--config=c.yaml"],
      "echo 'distributed: { backend: nccl }' >c.yaml",
      2,
      /^hpctrain: distributed\.backend nccl \(c\.yaml:1:25\) is for ranks on GPUs.*: give --distributed-backend auto to have /,
    ],
    [
      "a flag",
      ["--distributed-backend=nccl"],
      "",
      2,
      /^hpctrain: --distributed-backend nccl is for ranks on GPUs, .*: leave it out to have /,
    ],
    [
      "a variable",
      [],
      "export HPCTRAIN_DISTRIBUTED_BACKEND=nccl",
      2,
      /^hpctrain: distributed\.backend nccl \(env HPCTRAIN_DISTRIBUTED_BACKEND\) is for ranks on GPUs/,
    ],
    ["a wrong flag", ["--epoks=3"], "", 2, /^hpctrain: Unknown flag --epoks\./],
    ["a missing file", ["--data-path=none.npz"], "", 3, /^hpctrain: .*none\.npz.*no such file/],
  ] as const
) {
  Deno.test({
    name: `eight ranks say once what is wrong, and the job has its code: ${what} ${NEEDS}`,
    ignore: MISSING,
    fn: async () => {
      const ended = await step(what.replaceAll(" ", "-"), [...words], before);
      assertEquals([ended.code, ended.said.length], [code, 1], ended.said.join("\n"));
      assertMatch(ended.said[0], sentence);
    },
  });
}

Deno.test({
  name: `what one rank alone finds is said, though it is not the first ${NEEDS}`,
  ignore: MISSING,
  fn: async () => {
    const cwd = join(bed.folder, "alone");
    Deno.mkdirSync(cwd);
    const program = COMMAND.join(" ");
    const script = [
      "#!/bin/bash",
      "#SBATCH --nodes=2 --ntasks-per-node=4 --time=5 --output=out.txt",
      `srun bash -c 'if [[ $SLURM_PROCID == 5 ]]; then exec ${program} --epoks=3; fi'`,
    ].join("\n");
    const { code } = await bed.end(await bed.submit(script, { cwd }), 60);
    assertEquals(code, 2);
    assertMatch(Deno.readTextFileSync(join(cwd, "out.txt")), /^hpctrain: Unknown flag --epoks\./m);
  },
});
