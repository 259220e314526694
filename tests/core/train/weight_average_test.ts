// Weight averaging at the ends of epochs, beside torch.optim.swa_utils.
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { weightsOf } from "../../../core/checkpoint/weights.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { tensorBytes } from "../../../core/checkpoint/value.ts";
import { refuseOptimizer } from "../../../core/train/checks.ts";
import { partsOfEpoch } from "../../../core/train/feed.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { epochPath } from "../../../core/train/save.ts";
import { learningRate } from "../../../core/train/schedule.ts";
import { finished } from "../../../core/train/micro_batch.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { setThreads } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { askPeer } from "../../peer.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, started, trained } from "./started.ts";
import { settings } from "./rig.ts";

setThreads(1);

const CNN =
  "--data-type synthetic --model cosmo-cnn --dropout 0 --width 4 --set model.image_size=16 --train-samples 40 --val-samples 8 " +
  "--batch-size 8 --lr 0.01 --scheduler constant ";
const flags = (text: string) => text.trim().split(" ");

function nested(t: Tensor): unknown {
  let values: unknown[] = [...toNumbers(t)].map(Number);
  for (const size of t.shape.slice(1).reverse()) {
    values = Array.from({ length: values.length / size }, (_, i) => values.slice(i * size, (i + 1) * size));
  }
  return values;
}

/** The batches of an epoch, as training sees them. */
function batchesOf(run: Trainer, epoch: number): unknown[] {
  const supply = run.feed.of(run.data.train), batches: unknown[] = [];
  supply.begin(partsOfEpoch(run, epoch, 0));
  for (let more = true; more;) {
    while (!supply.ready(50));
    more = scope(() => {
      const group = supply.take();
      for (const batch of group ?? []) batches.push(nested(finished(batch).input));
      return group !== null;
    });
    supply.queued();
    supply.ahead();
  }
  return batches;
}

Deno.test(
  "averaged weights, batch norms' statistics and answers are those of torch's AveragedModel and update_bn",
  inFolder(async (folder) => {
    await started(folder, flags(CNN + "--epochs 4 --swa-start 2 --save-every-epoch"), async (run) => {
      await trainLoop(run);
      const [channels, height, width] = run.data.train.facts.input.shape;
      const theirs = await askPeer<Record<string, number>>("train/weight_average.py", {
        epochs: [2, 3, 4].map((epoch) => epochPath(run.paths, epoch)),
        last: latestPath(run.paths),
        batches: batchesOf(run, 3),
        model: [channels, height, width, 4, run.data.train.facts.outputs],
      });
      assertEquals(theirs.averaged, 3);
      for (const what of ["weights", "statistics", "answers"]) {
        assert(theirs[what] < 2e-6, `${what}: ${theirs[what]}`);
      }
    });
  }),
);

Deno.test(
  "an average goes on after a stop anywhere, to the last bit, and before its first epoch nothing is averaged",
  inFolder(async (folder) => {
    const all = CNN + "--epochs 4 --swa-start 2 --swa-lr 0.002 --set training.swa_anneal_epochs=2 ";
    const whole = await trained(`${folder}/whole`, flags(all));
    for (const step of [3, 10, 13]) { // in the first epoch, at the end of the second, in the third
      const first = await trained(`${folder}/parts${step}`, flags(all + `--max-steps ${step}`));
      const kept = contents(first.path);
      assertEquals(kept.get("/hpctrain/averaged_epochs"), step < 10 ? "0" : "1");
      assertEquals(kept.get("/hpctrain/ema_state_dict") === "null", step < 10);
      const rest = await trained(`${folder}/parts${step}`, flags(all), first.path);
      const ends = [whole, rest].map(({ path }) => contents(path));
      for (const end of ends) {
        for (const place of end.keys()) {
          if (/^\/config|\/run$|\/best|\/val_?[lL]oss/.test(place)) end.delete(place);
        }
      }
      assertEquals(ends[1], ends[0]);
    }
  }),
);

Deno.test(
  "exports have averaged weights with their statistics, and training's own with --raw",
  inFolder(async (folder) => {
    const { path } = await trained(folder, flags(CNN + "--epochs 2 --swa-start 1"));
    using file = openCheckpoint(path);
    const [averaged, raw] = [false, true].map((own) => weightsOf(file.root, path, own));
    assertEquals([averaged.averaged, raw.averaged], [true, false]);
    for (const name of ["features.0.1.running_mean", "features.0.0.weight"]) {
      assertNotEquals(tensorBytes(averaged.tensors.get(name)!), tensorBytes(raw.tensors.get(name)!));
    }
  }),
);

Deno.test("the learning rate goes to --swa-lr by a cosine and stays there", () => {
  const rate = { type: "constant", peak: 1, min: 0, warmup: 0, total: 100, every: 1, gamma: 1 } as const;
  const swa = { from: 40, over: 20, rate: 0.2 };
  const at = [39, 40, 50, 60, 99].map((step) => learningRate({ ...rate, swa }, step));
  assertEquals(at.map((value) => Math.round(1e6 * value) / 1e6), [1, 1, 0.6, 0.2, 0.2]);
});

Deno.test("averages that can't be are refused with the way out", () => {
  for (
    const [text, fix] of [
      ["--swa-start 3 --ema 0.9", "leave one out"],
      ["--swa-start 11 --epochs 10", "such as at 8"],
      ["--swa-lr 0.1", "--swa-start"],
      ["--swa-start 2 --optimizer schedule_free --scheduler constant", "leave --swa-start out"],
    ]
  ) assertThrows(() => refuseOptimizer(settings(...flags(text))), UserError, fix);
});
