// `./scripts/compile-quality`: whole runs with compiled steps and without, three seeds each, and what they reach. A compiled
// step rounds otherwise, so a run's numbers differ as another seed's do, and not by more.
import { join } from "paths";
import { table } from "../../../bench/report.ts";
import { askPeer } from "../../peer.ts";
import { COMMAND, environment, eventsOf, filesIn, ROOT } from "../../integration/program.ts";

const SEEDS = [1, 2, 3];

interface Task {
  readonly about: string;
  readonly args: readonly string[];
  /** Of the last evaluation; null where the loss says it all. */
  readonly metric: string | null;
}

const TASKS: Readonly<Record<string, Task>> = {
  digits: {
    about: "simple-convnet, 1,437 handwritten digits, 15 epochs",
    args: [
      ...["--data-type", "mnist", "--data-path", "digits", "--model", "simple-convnet", "--epochs", "15"],
      ...["--batch-size", "32", "--lr", "2e-3", "--dropout", "0", "--channels-last", "off"],
    ],
    metric: "accuracy",
  },
  quickstart: {
    about: "the preset, 1,000 fields, 4 epochs",
    args: [
      ...["--preset", "quickstart", "--train-samples", "1000", "--val-samples", "200", "--epochs", "4"],
      ...["--channels-last", "off"],
    ],
    metric: "r2",
  },
  gpt: {
    about: "2 x 64, 400 steps of 16 x 32 bytes of the documents",
    args: [
      ...[
        "--model",
        "gpt",
        "--data-type",
        "tokens",
        "--data-path",
        "text.bin",
        "--set",
        "data.token_type=uint8",
      ],
      ...["--layers", "2", "--heads", "2", "--embed", "64", "--context", "32", "--batch-size", "16"],
      ...[
        "--train-samples",
        "6400",
        "--val-samples",
        "500",
        "--epochs",
        "1",
        "--dropout",
        "0",
        "--lr",
        "3e-3",
      ],
    ],
    metric: null,
  },
};

interface Reached {
  readonly loss: number;
  readonly metric: number;
  readonly compiled: boolean;
}

async function train(cwd: string, name: string, { args, metric }: Task, mode: string, seed: number) {
  const run = `${name}-${mode}-${seed}`, [program, ...before] = COMMAND;
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: [
      ...before,
      ...args,
      "--seed",
      `${seed}`,
      `--compile=${mode}`,
      "--threads",
      "1",
      "--no-wandb",
      "--run-name",
      run,
    ],
    ...{ cwd, env: environment(), clearEnv: true, stdout: "piped", stderr: "piped" },
  }).output();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  const { val_loss: loss, metrics } = eventsOf(cwd, run).findLast(({ kind }) =>
    kind === "eval"
  )! as unknown as {
    val_loss: number;
    metrics: Record<string, number>;
  };
  console.error(run, loss);
  const compiled = new TextDecoder().decode(stdout).includes("Steps are compiled:");
  return { loss, metric: metric === null ? NaN : metrics[metric], compiled } satisfies Reached;
}

const digits = (values: readonly number[], places: number): string =>
  values.map((value) => value.toFixed(places)).join(", ");
const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b) / values.length;
const spread = (values: readonly number[]): number => Math.max(...values) - Math.min(...values);

const cwd = Deno.makeTempDirSync();
let wrong = 0;
try {
  Deno.mkdirSync(join(cwd, "digits"));
  await askPeer("train/digits.py", join(cwd, "digits"));
  const pages = filesIn(join(ROOT, "docs")).filter((path) => path.endsWith(".md")).sort();
  Deno.writeTextFileSync(
    join(cwd, "text.bin"),
    pages.map((page) => Deno.readTextFileSync(join(ROOT, "docs", page))).join("\n"),
  );
  const rows: string[][] = [];
  for (const [name, task] of Object.entries(TASKS)) {
    if (Deno.args.length > 0 && !Deno.args.includes(name)) continue;
    const of: Record<string, Reached[]> = {};
    for (const mode of ["off", "fast", "exact"]) {
      of[mode] = [];
      // The same bits need no second seed.
      for (const seed of mode === "exact" ? [SEEDS[0]] : SEEDS) {
        of[mode].push(await train(cwd, name, task, mode, seed));
      }
    }
    const losses = (mode: string) => of[mode].map(({ loss }) => loss);
    const same = of.exact[0].loss === of.off[0].loss;
    const apart = Math.abs(mean(losses("fast")) - mean(losses("off")));
    const within = apart <= Math.max(spread(losses("off")), spread(losses("fast")));
    const done = of.fast.every(({ compiled }) => compiled);
    if (!same || !within || !done) wrong++;
    rows.push(...["off", "fast"].map((mode) => [
      mode === "off" ? `${name}: ${task.about}` : "",
      mode === "fast" && !done ? "fast (not compiled)" : mode,
      digits(losses(mode), 4),
      task.metric === null ? "" : `${task.metric} ${digits(of[mode].map(({ metric }) => metric), 4)}`,
      mode === "off" ? "" : `${apart.toFixed(4)} apart${within ? "" : ", **more than seeds are**"}`,
    ]));
    rows.push([
      "",
      of.exact[0].compiled ? "exact" : "exact (op by op)",
      digits(losses("exact"), 4),
      "",
      same ? "the same bits" : "**other bits**",
    ]);
  }
  console.log(table(["Run", "--compile", "Validation losses of seeds 1, 2, 3", "", "Means"], rows));
} finally {
  Deno.removeSync(cwd, { recursive: true });
}
Deno.exit(wrong > 0 ? 1 : 0);
