// Checks of the whole program on the device: runs, checkpoints both ways, same bits twice, out of memory.
import { join } from "paths";
import { type Check, type Context, judged, relative, settings, SMALL, within } from "./check.ts";
import { type Ended, failed, fromEvents, SOURCES } from "./runs.ts";

const root = new URL("../..", import.meta.url).pathname;

const hpctrain = ({ program }: Context, folder: string, ...args: string[]): Promise<Ended> =>
  program.again(folder, args);

/** A rehearsal's device, where it is a stand-in, has so little memory that little fills it. */
const SMALL_DEVICE = { CUDA_STANDIN_MEMORY_MIB: "64" };

const deviceFlag = (c: Context) => c.device === "cpu" ? "cpu" : "cuda";

const acrossDevices = (name: string, from: (c: Context) => string, to: (c: Context) => string): Check => ({
  name,
  beside: true,
  async run(c) {
    const folder = name.replaceAll(" ", "-");
    const trained = await hpctrain(c, folder, "--preset", "debug", "--device", from(c));
    if (trained.code !== 0) return failed(trained);
    const loss = fromEvents(c.program, folder, "debug", "eval", "val_loss").at(-1)!;
    const checkpoint = "checkpoints/debug_latest.pt";
    const again = await hpctrain(c, folder, "eval", checkpoint, "--device", to(c), "--amp", "off", "--json");
    if (again.code !== 0) return failed(again);
    // The device that trained may have computed its figure in bf16.
    return within(relative([JSON.parse(again.out).val_loss], [loss]), 0.01);
  },
});

const sameBits: Check = {
  name: "--deterministic gives the same bits twice",
  beside: true,
  async run(c) {
    const models = c.quick ? ["mlp"] : Object.keys(SMALL);
    const different: string[] = [];
    for (const model of models) {
      const runs: number[][] = [];
      for (const turn of ["first", "second"]) {
        const flags = [
          ...SMALL[model],
          ...settings({ "training.log_interval": 1, "training.seed": 1 }),
          "--deterministic",
          "--max-steps",
          "20",
          "--run-name",
          model,
        ];
        const ended = await hpctrain(c, `bits-${turn}`, ...flags, "--device", deviceFlag(c));
        if (ended.code !== 0) return { ...failed(ended), figure: `${model}: ${failed(ended).figure}` };
        runs.push(fromEvents(c.program, `bits-${turn}`, model, "step", "loss"));
      }
      if (runs[0].length !== 20 || `${runs[0]}` !== `${runs[1]}`) different.push(model);
    }
    const figure = different.length === 0
      ? `20 losses each of ${models.join(", ")}`
      : `not ${different.join(", ")}`;
    return { ok: different.length === 0, figure };
  },
};

const outOfMemory: Check = {
  name: "out of memory is a sentence and exit code 4",
  gpuOnly: true,
  async run(c) {
    const [layers, embed, batch] = c.quick ? [1, 64, 1024] : [12, 768, 4096];
    const size = {
      "model.layers": layers,
      "model.embed": embed,
      "model.heads": embed / 64,
      "model.context": 1024,
      "data.train_samples": batch,
      "data.val_samples": 8,
    };
    const flags = ["--model", "gpt", "--batch-size", String(batch), "--amp", "off", ...settings(size)];
    const device = c.quick ? SMALL_DEVICE : {};
    const { code, err } = await c.program.once("memory", [...flags, "--device", "cuda"], device);
    const sentence = err.trim().split("\n").at(-1) ?? "";
    const half = `--batch-size ${batch / 2}`;
    const said = sentence.startsWith("hpctrain: Out of memory at step 1 ") && sentence.includes(half);
    return {
      ok: judged(c, code === 4 && said),
      figure: `exit code ${code}: ${sentence.slice(0, 80)}`,
    };
  },
};

/** So many rows of 1024 tokens fill 100 GB between two layers. */
const TOO_MANY = 16384;

const evaluationInParts: Check = {
  name: "an evaluation that does not fit in memory goes on in parts, to the same figures",
  gpuOnly: true,
  async run(c) {
    const [layers, embed, context, many, few] = c.quick
      ? [1, 64, 64, 1024, 256]
      : [2, 768, 1024, TOO_MANY, 256];
    const size = {
      "model.layers": layers,
      "model.embed": embed,
      "model.heads": embed / 64,
      "model.context": context,
    };
    const words = [
      "--model",
      "gpt",
      "--amp",
      "bf16",
      "--device",
      "cuda",
      "--max-steps",
      "1",
      "--batch-size",
      "4",
    ];
    const samples = ["--train-samples", "8", "--val-samples", String(many)];
    const run = (folder: string, batch: number) => {
      const flags = [...words, ...samples, ...settings({ ...size, "training.eval_batch_size": batch })];
      return c.program.once(folder, flags, c.quick ? SMALL_DEVICE : {});
    };
    const small = await run("eval-small", few), large = await run("eval-large", many);
    if (small.code !== 0) return failed(small);
    if (large.code !== 0) return failed(large);
    const [a, b] = ["eval-small", "eval-large"].map((at) =>
      fromEvents(c.program, at, "gpt", "eval", "val_loss")
    );
    const fitted = /did not fit in memory: it goes on with (\d+) samples/.exec(large.err + large.out)?.[1];
    const apart = relative(b, a);
    return {
      ok: apart < 1e-3 && judged(c, fitted !== undefined),
      figure: `${many} at once, then ${fitted}; ${apart.toExponential(1)} apart (at most 1e-3)`,
    };
  },
};

/** In a process of its own: nothing can be computed on the device by a process that saw it fail. */
const deviceFails: Check = {
  name: "a device that fails is a sentence and exit code 7",
  gpuOnly: true,
  async run(c) {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [...SOURCES, join(root, "bench/gpu_check/broken.ts")],
      env: { HPCTRAIN_LIBTORCH: c.libtorch.dir },
      stdin: "null",
      stdout: "null",
    }).output();
    const sentence = new TextDecoder().decode(stderr).trim().split("\n").at(-1) ?? "";
    return {
      ok: judged(c, code === 7 && sentence.startsWith("hpctrain: The GPU failed in ")),
      figure: `exit code ${code}: ${sentence.slice(0, 120)}`,
    };
  },
};

export const program: readonly Check[] = [
  acrossDevices("trained on the device, evaluated on the CPU", deviceFlag, () => "cpu"),
  acrossDevices("trained on the CPU, evaluated on the device", () => "cpu", deviceFlag),
  sameBits,
  outOfMemory,
  evaluationInParts,
  deviceFails,
];
