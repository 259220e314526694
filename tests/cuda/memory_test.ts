// On the CUDA stand-in a long run holds no more than a short one: device memory, page-locked memory, events and streams.
import { assert, assertEquals } from "@std/assert";
import { inTemp } from "../integration/program.ts";
import { CONVNET, MLP } from "./cases.ts";
import { type Ended, runAll, violations } from "./runs.ts";
import { onStandin } from "./standin.ts";

const SMALL =
  "--device cuda --train-samples 32 --val-samples 8 --batch-size 16 --eval-batch-size 4 --threads 1 " +
  "--num-workers 1 --no-wandb --no-tf32";
/**
 * How much more a long run may hold: one of the allocator's segments, a few small blocks of page-locked memory, and the
 * events of those that numbers are read back into, which later runs use again.
 */
const SLACK = { "device bytes": 24 << 20, "pinned bytes": 64 << 10, events: 4, streams: 0 };

/** What is held when a run ends. */
const heldBy = ({ counts }: Ended): number[] =>
  Object.keys(SLACK).map((what) => counts[`live:${what}`]?.count ?? 0);

for (const [model, compile] of [[MLP, "--compile=exact"], [CONVNET, "--no-compile"]]) {
  onStandin(
    `${model} ${compile}: 50 epochs hold on the CUDA stand-in what 5 hold`,
    () =>
      inTemp(async (cwd) => {
        const run = (epochs: number) => ({
          args: `${SMALL} ${model} ${compile} --epochs ${epochs} --run-name of${epochs}`.split(" "),
        });
        // The first of a process opens what stays; later ones differ by what a run leaves behind.
        const ends = await runAll(cwd, [run(4), run(5), run(50)]);
        for (const end of ends) assertEquals([end.code, end.error, ...violations(end)], [0, null]);
        const [first, second, third] = ends.map(heldBy);
        Object.entries(SLACK).forEach(([what, slack], i) => {
          const more = third[i] - second[i] - (second[i] - first[i]);
          assert(more <= slack, `50 epochs hold ${more} ${what} more than 5`);
        });
      }),
  );
}
