// The promise: a run that was killed and resumed is the run that was not. Saves fall into the middle of epochs, and
// between the two kills of a run an epoch ends.
import { goodFiles } from "./formats.ts";
import { survivesKills } from "./exactness.ts";

// Large enough that a step takes some milliseconds, and a kill can find the run at work.
const ROWS = ["--data-path=rows.npz", "--in-memory=no", "--model=mlp", "--hidden-size=1024", "--dropout=0.1"];
const IMAGES = [
  ...["--data-path=images", "--model=simple-convnet", "--random-crop=28", "--crop-padding=4"],
  ...["--flip=both", "--rotate"],
];
const TEXT = [
  "--data-type=synthetic",
  "--model=gpt",
  "--layers=2",
  "--embed=128",
  "--context=64",
  "--dropout=0.1",
];
const SAMPLES = ["--train-samples=72", "--val-samples=8", "--epochs=6"];
const TWELVE = [...SAMPLES, "--batch-size=6"],
  TWELVE_OF_TWO = [...SAMPLES, "--batch-size=3", "--grad-accum=2"];
const TEN = ["--train-samples=60", "--val-samples=8", "--epochs=6", "--batch-size=6"];

const CASES: Record<string, string[]> = {
  "mlp, 4 workers, accumulated": [...ROWS, ...TWELVE_OF_TWO, "--num-workers=4"],
  "mlp in bf16, no workers, averaged": [...ROWS, ...TWELVE, "--num-workers=0", "--amp=bf16", "--ema=0.9"],
  "convnet on augmented images, no workers, averaged": [...IMAGES, ...TWELVE, "--num-workers=0", "--ema=0.9"],
  "convnet in bf16 on augmented images, 4 workers, accumulated and clipped": [
    ...[...IMAGES, ...TWELVE_OF_TWO, "--num-workers=4", "--amp=bf16", "--clip-norm=0.5"],
  ],
  "convnet on mixed images, 4 workers, saved at the ends of epochs": [
    ...[...IMAGES, ...TEN, "--num-workers=4", "--mixup=0.4", "--cutmix=1", "--optimizer=sgd"],
  ],
  "gpt with dropout, accumulated and averaged": [...TEXT, ...TWELVE_OF_TWO, "--ema=0.9"],
  "gpt with dropout in bf16, blocks computed twice": [
    ...TEXT,
    ...TWELVE,
    "--amp=bf16",
    "--gradient-checkpointing",
  ],
  "gpt with dropout in virtual shards": [...TEXT, ...TWELVE, "--deterministic=world"],
};

for (const [title, flags] of Object.entries(CASES)) {
  Deno.test(`${title}: killed after 10 and after 20 steps, the run has the bits of one left alone`, async () => {
    const files = flags.includes("--model=gpt") ? new Map() : await goodFiles("images", "rows.npz");
    await survivesKills(flags, files);
  });
}
