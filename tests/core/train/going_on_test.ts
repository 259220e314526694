// Going on is O(1), and free of who reads the data.
import { assert, assertEquals } from "@std/assert";
import { join } from "paths";
import { openSampling } from "../../../core/data/source/sampling.ts";
import type { Source } from "../../../core/data/source/source.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { setThreads } from "../../../ffi/context.ts";
import { goodFiles, lay } from "../../integration/formats.ts";
import { inFolder } from "../checkpoint/python.ts";
import { contents, started, trained } from "./started.ts";

setThreads(1);

const SMALL = [
  "--train-samples=72",
  "--val-samples=8",
  "--batch-size=6",
  "--epochs=3",
  "--scheduler=constant",
];

for (
  const [title, file, flags] of [
    ["rows read from a file", "rows.npz", [
      "--in-memory=no",
      "--model=mlp",
      "--dropout=0.1",
      "--hidden-size=16",
    ]],
    ["augmented images", "images", [
      "--model=mlp",
      "--random-crop=28",
      "--flip=both",
      "--rotate",
      "--mixup=0.4",
    ]],
  ] as const
) {
  Deno.test(
    `${title}: begun by the training thread and ended by four others, a run has the bits of one without threads`,
    inFolder(async (folder) => {
      lay(await goodFiles(file), folder);
      const settings = [...flags, ...SMALL, `--data-path=${join(folder, file)}`];
      const run = (name: string, workers: number, steps: number, resume: string | null = null) =>
        trained(
          `${folder}/${name}`,
          [...settings, `--num-workers=${workers}`, `--max-steps=${steps}`],
          resume,
        );
      const whole = await run("whole", 0, 30);
      const first = await run("parts", 0, 17);
      const rest = await run("parts", 4, 30, first.path);
      const [a, b] = [whole, rest].map(({ path }) =>
        [...contents(path)].filter(([place]) => !/^\/config|\/run$/.test(place))
      );
      assertEquals(b, a);
    }),
  );
}

Deno.test(
  "a run that goes on at step 1,000,000,000 of an epoch reads its next samples, and nothing before them",
  inFolder(async (folder) => {
    const flags = [
      "--data-type=synthetic",
      "--model=mlp",
      ...SMALL,
      "--batch-size=2",
      "--scheduler=constant",
    ];
    await started(folder, [...flags, "--max-steps=1000000003"], async (run) => {
      const [length, place] = [2 ** 31 - 1, 1e9];
      let read = 0;
      const raw: Source["raw"] = (part) => {
        read += part.ids.length;
        return run.data.train.raw({ ...part, ids: part.ids.map((id) => id % 72) });
      };
      const plan = { ...run.plan, stepsPerEpoch: Math.ceil(length / 2) };
      Object.assign(run.cursor, { step: place, stepInEpoch: place, samples: 2 * place });
      const began = performance.now();
      const train = { ...run.data.train, length, raw };
      const sampling = openSampling(run.config.data, run.config.training.seed, train);
      await trainLoop({ ...run, plan, sampling, data: { ...run.data, train } });
      assertEquals([run.cursor.step, run.cursor.stepInEpoch], [place + 3, place + 3]);
      assert(read <= 2 * 5, `${read} samples were read for 3 steps of 2`);
      assert(performance.now() - began < 10_000); // counting to a billion takes longer
    });
  }),
);
