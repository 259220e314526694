// The sequence of global batches is a function of the seed: loader threads, reading ahead and stops change nothing of it.
import { assert, assertEquals } from "@std/assert";
import { inFolder, python } from "../checkpoint/python.ts";
import { contents, trained } from "./started.ts";

const FLAGS = [
  ..."--data-type npz --in-memory no --model simple-convnet --batch-size 8 --global-batch-size 24 --epochs 2"
    .split(" "),
  ..."--random-crop 8 --crop-padding 1 --flip both --rotate --mixup 0.4 --normalise measured --log-interval 1 --scheduler constant"
    .split(" "),
];

const lossesOf = ({ events }: Awaited<ReturnType<typeof trained>>) =>
  events.filter(({ kind }) => kind === "step").map(({ step, loss }) => `${step} ${loss}`);

Deno.test(
  "losses and weights have the same bits with 0, 1 and 4 loader threads, any reading ahead, and any number of stops",
  inFolder(async (folder) => {
    python(
      `
import sys, numpy as np
rng = np.random.default_rng(0)
np.savez(sys.argv[1] + "/maps.npz", x=rng.standard_normal((110, 2, 10, 10)).astype("f4"), y=rng.integers(0, 5, 110))
`,
      folder,
    );
    const run = (name: string, more: string[], resume: string | null = null) =>
      trained(`${folder}/${name}`, [...FLAGS, "--data-path", `${folder}/maps.npz`, ...more], resume);
    const straight = await run("straight", ["--num-workers", "0"]);
    const losses = lossesOf(straight);
    assertEquals(losses.length, 10);
    assertEquals(new Set(losses.map((loss) => loss.split(" ")[1])).size, 10, "every step has other samples");
    for (const workers of ["1", "4"]) {
      for (const prefetch of ["1", "64"]) {
        const other = await run(`${workers}-${prefetch}`, [
          "--num-workers",
          workers,
          "--prefetch-mib",
          prefetch,
        ]);
        assertEquals(lossesOf(other), losses, `${workers} threads, ${prefetch} MiB ahead`);
        assertEquals(weightsIn(other.path), weightsIn(straight.path));
      }
    }
    const seen: string[] = [];
    let last: string | null = null;
    for (const until of [2, 3, 7, 10]) {
      const part = await run(`part-${until}`, [
        "--num-workers",
        String(until % 3),
        "--max-steps",
        String(until),
      ], last);
      seen.push(...lossesOf(part));
      last = part.path;
    }
    assertEquals(seen, losses);
    assertEquals(weightsIn(last!), weightsIn(straight.path));
  }),
);

function weightsIn(path: string): [string, string][] {
  const weights = [...contents(path)].filter(([name]) => /^\/(model|optimizer)_state_dict\/.*/.test(name));
  assert(weights.length > 10);
  return weights;
}
