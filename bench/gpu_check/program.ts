// Checks of the whole program on the device: runs, checkpoints both ways, same bits twice, out of memory.
import { join } from "@std/path";
import { type Check, type Context, type Outcome, relative, settings, SMALL, within } from "./check.ts";

const root = new URL("../..", import.meta.url).pathname;

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const hpctrain = (c: Context, folder: string, ...args: string[]): Promise<Ended> =>
  hpctrainWith({}, c, folder, args);

/** The executable where there is one, else its sources; its files go to a folder of this name. */
export async function hpctrainWith(
  env: Record<string, string>,
  c: Context,
  folder: string,
  args: readonly string[],
): Promise<Ended> {
  const cwd = join(c.folder, folder);
  Deno.mkdirSync(cwd, { recursive: true });
  const exe = Deno.env.get("HPCTRAIN_EXE");
  const sources = ["run", "--allow-all", "--no-check", "--quiet", "--cached-only", join(root, "main.ts")];
  const { code, stdout, stderr } = await new Deno.Command(exe ?? Deno.execPath(), {
    args: [...(exe ? [] : sources), ...args],
    cwd,
    env: { HPCTRAIN_LIBTORCH: c.libtorch.dir, ...env },
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

const deviceFlag = (c: Context) => c.device === "cpu" ? "cpu" : "cuda";

export const failed = ({ code, err }: Ended): Outcome => ({
  ok: false,
  figure: `exit code ${code}: ${err.trim().split("\n").at(-1) ?? ""}`,
});

/** One number of each event of a kind, in order. */
export function fromEvents(c: Context, folder: string, run: string, kind: string, field: string): number[] {
  return Deno.readTextFileSync(join(c.folder, folder, "logs", run, "events.jsonl")).trim().split("\n")
    .map((line) => JSON.parse(line)).filter((e) => e.kind === kind).map((e) => e[field]);
}

const acrossDevices = (name: string, from: (c: Context) => string, to: (c: Context) => string): Check => ({
  name,
  async run(c) {
    const folder = name.replaceAll(" ", "-");
    const trained = await hpctrain(c, folder, "--preset", "debug", "--device", from(c));
    if (trained.code !== 0) return failed(trained);
    const loss = fromEvents(c, folder, "debug", "eval", "val_loss").at(-1)!;
    const checkpoint = "checkpoints/debug_latest.pt";
    const again = await hpctrain(c, folder, "eval", checkpoint, "--device", to(c), "--amp", "off", "--json");
    if (again.code !== 0) return failed(again);
    // The device that trained may have computed its figure in bf16.
    return within(relative([JSON.parse(again.out).val_loss], [loss]), 0.01);
  },
});

const sameBits: Check = {
  name: "--deterministic gives the same bits twice",
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
        runs.push(fromEvents(c, `bits-${turn}`, model, "step", "loss"));
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
    const size = {
      "model.layers": 12,
      "model.embed": 768,
      "model.heads": 12,
      "model.context": 1024,
      "data.train_samples": 4096,
      "data.val_samples": 8,
    };
    const flags = ["--model", "gpt", "--batch-size", "4096", "--amp", "off", ...settings(size)];
    const { code, err } = await hpctrain(c, "memory", ...flags, "--device", "cuda");
    const sentence = err.trim().split("\n").at(-1) ?? "";
    return {
      ok: code === 4 && /^hpctrain: Out of memory at step 1 .*--batch-size 2048/.test(sentence),
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
    const size = { "model.layers": 2, "model.embed": 768, "model.heads": 12, "model.context": 1024 };
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
    const samples = ["--train-samples", "8", "--val-samples", String(TOO_MANY)];
    const run = (folder: string, batch: number) =>
      hpctrain(c, folder, ...words, ...samples, ...settings({ ...size, "training.eval_batch_size": batch }));
    const small = await run("eval-small", 256), large = await run("eval-large", TOO_MANY);
    if (small.code !== 0) return failed(small);
    if (large.code !== 0) return failed(large);
    const [a, b] = ["eval-small", "eval-large"].map((at) => fromEvents(c, at, "gpt", "eval", "val_loss"));
    const fitted = /did not fit in memory: it goes on with (\d+) samples/.exec(large.err + large.out)?.[1];
    const apart = relative(b, a);
    return {
      ok: fitted !== undefined && apart < 1e-3,
      figure: `${TOO_MANY} at once, then ${fitted}; ${apart.toExponential(1)} apart (at most 1e-3)`,
    };
  },
};

/** In a process of its own: nothing can be computed on the device by a process that saw it fail. */
const deviceFails: Check = {
  name: "a device that fails is a sentence and exit code 7",
  gpuOnly: true,
  async run(c) {
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--allow-all",
        "--no-check",
        "--quiet",
        "--cached-only",
        join(root, "bench/gpu_check/broken.ts"),
      ],
      env: { HPCTRAIN_LIBTORCH: c.libtorch.dir },
      stdin: "null",
      stdout: "null",
    }).output();
    const sentence = new TextDecoder().decode(stderr).trim().split("\n").at(-1) ?? "";
    return {
      ok: code === 7 && sentence.startsWith("hpctrain: The GPU failed in "),
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
