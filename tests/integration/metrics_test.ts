// Metrics of maps as a run tells them: the start line, the epoch line, events and `eval`, on 1, 2 and 4 ranks.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { openMpi } from "../mpi.ts";
import { python } from "../core/checkpoint/python.ts";
import { eventsOf, inTemp, succeed } from "./program.ts";
import { train, trained } from "./ranks.ts";
import { assertSentence } from "../sentences.ts";

const MAPS = `
import sys, numpy as np
r = np.random.default_rng(0)
x = r.normal(size=(40, 3, 16, 16)).astype("f4")
np.savez(f"{sys.argv[1]}/numbers.npz", x=x, near=x[:, :1] * 2 + 1, far=1e5 + x[:, 1:2])
np.savez(f"{sys.argv[1]}/classes.npz", x=x, label=(x[:, 0] > 0).astype("i4") + (x[:, 1] > 1))
`;

/** The same bits on any number of ranks, and so the same metrics, of training too. */
const flags = (kind: string) => [
  ...["--model=unet", "--set", "model.width=4", `--data-path=${kind}.npz`, "--features=x", "--epochs=1"],
  ...[
    "--deterministic=world",
    "--set",
    "training.virtual_shards=4",
    "--global-batch-size=8",
    "--validation-split=0.45",
    "--batch-size=2",
    "--no-wandb",
    "--normalise=off",
  ],
  ...["--set", "training.eval_batch_size=4", ...(kind === "numbers" ? ["--targets=near,far"] : [])],
];

type Metrics = Record<string, number>;

function told(cwd: string, name: string): { train: Metrics; val: Metrics } {
  const [event] = eventsOf(cwd, name).filter(({ kind }) => kind === "epoch");
  return { train: event.metrics as Metrics, val: event.val_metrics as Metrics };
}

for (const [kind, keys] of [["numbers", ["r2", "mae", "rmse", "bias"]], ["classes", ["accuracy"]]] as const) {
  Deno.test(`metrics of maps of ${kind} are told alike by the start, the epoch, events and eval, and have the same bits on 1, 2 and 4 ranks`, () =>
    inTemp(async (cwd) => {
      python(MAPS, cwd);
      const mpi = openMpi();
      const { code, stdout, stderr } = await train(cwd, "of-1", 1, flags(kind), { mpi });
      assertEquals(code, 0, stderr);
      const one = told(cwd, "of-1");
      assertEquals(Object.keys(one.train), [...keys]);
      if (kind === "numbers") {
        assertMatch(stdout, /numbers\.npz: maps of \[3, 16, 16\] -> maps of \[2, 16, 16\]/);
        assertMatch(stdout, /\| Val R2: \S+ \(worst far: \S+\) \|/);
        for (const { r2, mae } of [one.train, one.val]) assert(r2 <= 1 && mae >= 0, `${r2}, ${mae}`);
        assertEquals(one.val.r2, (one.val["r2/near"] + one.val["r2/far"]) / 2);
        const { stdout: judged } = await succeed(["eval", `checkpoints/of-1_latest.pt`], { cwd });
        assertMatch(judged, /^Val Loss: .* \| Val R2: .* \| Val MAE: .* \| Val RMSE: /m);
        assertMatch(judged, /^ {2}far +\S+ +\S+ +\S+ +\S+$/m);
      } else {
        assertSentence("integration/metrics: classes npz maps", stdout);
        assert(one.val.mean_iou > 0 && one.val.mean_iou < one.val.accuracy, JSON.stringify(one.val));
      }
      for (const ranks of [2, 4]) {
        await trained(cwd, `of-${ranks}`, ranks, flags(kind), { mpi });
        assertEquals(told(cwd, `of-${ranks}`), one, `on ${ranks} ranks`);
      }
    }));
}
