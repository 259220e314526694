// One real model, from its export to its predictions: all by the program as a user starts it, beside PyTorch.
import { join } from "paths";
import { key } from "../../core/base/random.ts";
import { bits } from "../core/models/exported/training.ts";
import { eventsOf, run } from "../integration/program.ts";
import type { Exported, RealPython, Refused, Told } from "./python.ts";

export const STEPS = 10;
const SEED = 1;
/** bf16 has 8 bits: what differs by more than the rounding of a few operations is no rounding. */
const HALF_TOLERANCE = 0.02;
/** Evaluation may take fused ways that no graph has: other bits, the same numbers. */
const PREDICTED_TOLERANCE = 1e-5;

export interface Row {
  readonly name: string;
  readonly library: string;
  readonly parameters: number;
  readonly operations: number;
  readonly blocks: number;
  /** Sizes of batches that PyTorch exports it for: "any", or the one; null where it does not. */
  readonly exported: string | null;
  /** Losses with PyTorch's bits, of STEPS; null where it does not train. */
  readonly equal: number | null;
  /** What was tried, and whether it held; null where it could not be tried. */
  readonly resumed: boolean | null;
  readonly checkpointed: boolean | null;
  /** Under bf16: the largest distance of a loss from PyTorch's, and how many have its bits. */
  readonly half: { readonly far: number; readonly equal: number } | null;
  /** The largest distance of a prediction from PyTorch's, in units of the largest; or its own is random in evaluation. */
  readonly predicted: number | "random" | null;
  /** What did not hold, and why. */
  readonly misses: readonly Miss[];
}

export interface Miss {
  readonly what: "export" | "train" | "resume" | "checkpoint" | "bf16" | "predict";
  readonly why: string;
}

export const FLAGS =
  "--no-shuffle --validation-split 0 --optimizer sgd --lr 0.01 --weight-decay 0 --scheduler constant " +
  `--set training.optimizer.momentum=0.9 --log-interval 1 --no-wandb --threads 1 --seed ${SEED} --epochs 1`;

/** What dropout draws from in each step, where all of the model is one block. */
export const seedsOfSteps = (): bigint[] =>
  Array.from({ length: STEPS }, (_, step) => key(SEED, "dropout", step, 0, 0, 0));

const isRefused = (answer: object): answer is Refused => "error" in answer;

/** Tries all of it; what fails is in the row, not thrown. */
export async function tryModel(
  python: RealPython,
  [name, library]: readonly [string, string],
  folder: string,
): Promise<Row> {
  const misses: Miss[] = [];
  const miss = (what: Miss["what"], why: string) => void misses.push({ what, why });
  const row = {
    ...{ name, library, parameters: 0, operations: 0, blocks: 0 },
    ...{ exported: null, equal: null, resumed: null, checkpointed: null, half: null, predicted: null },
    misses,
  };
  const told = await python.train(name, folder, seedsOfSteps());
  if (isRefused(told)) {
    miss("export", told.error);
    return row;
  }
  const train = (kind: string, ...more: string[]) => trained(told, name, kind, folder, more);
  const whole = await train("whole", "--blocks", "1");
  const exported = { ...row, parameters: told.parameters, exported: told.sizes };
  if (whole.failed !== null) {
    miss("train", whole.failed);
    return exported;
  }
  const equal = alike(whole.losses, told.losses);
  if (equal < STEPS) {
    miss("train", `${equal} of ${STEPS} losses have PyTorch's bits; ${farthest(whole.losses, told.losses)}`);
  }
  const resumed = await resumedRight(train, name, whole, miss);
  const twice = await train("twice", "--gradient-checkpointing");
  const checkpointed = await checkpointedRight(train, whole, twice, miss);
  const half = await halfRight(train, told, miss);
  return {
    ...exported,
    ...shapeOf(twice),
    equal,
    resumed,
    checkpointed,
    half,
    predicted: await predictedRight(python, name, folder, miss),
  };
}

/** How a model's run is told what it trains, on what. */
export function startOf({ features, target, judge, batch }: Exported, path: string): string[] {
  const data = ["--data-path", `${path}.npz`, "--features", features.join(",")];
  const targets = target === null ? [] : ["--targets", target];
  const loss = judge === "numbers" ? ["--loss", "mse"] : []; // a graph may have other losses among its outputs
  return ["--model", `${path}.pt2`, ...data, ...targets, ...loss, "--batch-size", String(batch)];
}

interface Trained {
  readonly losses: readonly number[];
  /** The sentence that it ended with, or null. */
  readonly failed: string | null;
  readonly said: string;
}

type Train = (kind: string, ...more: string[]) => Promise<Trained>;
type Missed = (what: Miss["what"], why: string) => void;

async function trained(
  told: Told,
  name: string,
  kind: string,
  folder: string,
  more: string[],
): Promise<Trained> {
  const run_name = `${name}-${kind}`;
  const steps = more.includes("--max-steps") ? [] : ["--max-steps", String(STEPS)];
  const args = [...startOf(told, name), ...FLAGS.split(" "), ...steps, "--run-name", run_name, ...more];
  const { code, stdout, stderr } = await run(args, { cwd: folder, timeout: 120 }).catch((error) => ({
    code: -1,
    stdout: "",
    stderr: String(error),
  }));
  const losses = eventsOf(folder, run_name).filter(({ kind }) => kind === "step").map(({ loss }) =>
    Number(loss)
  );
  return { losses, said: stdout, failed: code === 0 ? null : `exit code ${code}: ${sentence(stderr)}` };
}

/** The error, without warnings and the hints behind it. */
const sentence = (stderr: string): string =>
  stderr.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !/^warning/i.test(line))
    .slice(-3)
    .join(" ").slice(0, 400);

const alike = (ours: readonly number[], theirs: readonly string[]): number =>
  ours.filter((loss, i) => bits(loss) === theirs[i]).length;

const numberOf = (hex: string): number => new DataView(Uint8Array.fromHex(hex).buffer).getFloat32(0);

/** The largest distance of a loss, in units of PyTorch's. */
function distance(ours: readonly number[], theirs: readonly string[]): number {
  const each = theirs.map((hex, i) => {
    const loss = numberOf(hex);
    return Math.abs((ours[i] ?? NaN) - loss) / Math.max(Math.abs(loss), 1e-30);
  });
  return Math.max(...each);
}

const farthest = (ours: readonly number[], theirs: readonly string[]): string =>
  `the farthest is off by ${distance(ours, theirs).toExponential(1)}`;

const same = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((loss, i) => Object.is(loss, b[i]));

/** Stopped in the middle of the epoch and gone on with from the checkpoint. */
async function resumedRight(
  train: Train,
  name: string,
  whole: Trained,
  miss: Missed,
): Promise<boolean | null> {
  const half = STEPS / 2;
  const first = await train("parts", "--blocks", "1", "--max-steps", String(half));
  const path = join("checkpoints", `${name}-parts_latest.pt`);
  const rest = first.failed === null ? await train("rest", "--blocks", "1", "--resume", path) : first;
  if (rest.failed !== null) {
    miss("resume", rest.failed);
    return false;
  }
  const right = same([...first.losses, ...rest.losses], whole.losses);
  if (!right) {
    const step = rest.losses.findIndex((loss, i) => loss !== whole.losses[half + i]);
    miss(
      "resume",
      `other losses from step ${half + step + 1}: ${rest.losses[step]} and not ${whole.losses[half + step]}`,
    );
  }
  return right;
}

/** In as many blocks as it has, each computed twice. Blocks that drop draw for themselves, so then they are compared with the
 * same blocks computed once. */
async function checkpointedRight(
  train: Train,
  whole: Trained,
  twice: Trained,
  miss: Missed,
): Promise<boolean> {
  if (twice.failed === null && same(whole.losses, twice.losses)) return true;
  const once = await train("blocks");
  const failed = once.failed ?? twice.failed;
  if (failed !== null) {
    miss("checkpoint", failed);
    return false;
  }
  const right = same(once.losses, twice.losses);
  if (!right) {
    const step = twice.losses.findIndex((loss, i) => loss !== once.losses[i]);
    miss(
      "checkpoint",
      `other losses from step ${step + 1}: ${twice.losses[step]} and not ${once.losses[step]}`,
    );
  }
  return right;
}

async function halfRight(train: Train, told: Told, miss: Missed): Promise<Row["half"]> {
  const { failed, losses } = await train("half", "--blocks", "1", "--amp", "bf16");
  if (failed !== null) {
    miss("bf16", failed);
    return null;
  }
  const half = { far: distance(losses, told.halves), equal: alike(losses, told.halves) };
  if (!(half.far <= HALF_TOLERANCE)) miss("bf16", farthest(losses, told.halves));
  return half;
}

/** By the checkpoint of the whole run, whose weights have to load into the Python module, strictly. */
async function predictedRight(
  python: RealPython,
  name: string,
  folder: string,
  miss: Missed,
): Promise<Row["predicted"]> {
  const weights = join(folder, "checkpoints", `${name}-whole_latest.pt`);
  const out = `${name}-predicted.npz`;
  const { code, stderr } = await run(["predict", weights, "--all", "--out", out], {
    cwd: folder,
    timeout: 120,
  });
  const answer = await python.compare(name, folder, STEPS, weights, code === 0 ? join(folder, out) : null);
  if (code !== 0) {
    miss("predict", `exit code ${code}: ${sentence(stderr)}`);
    return null;
  }
  if (isRefused(answer)) {
    miss("predict", answer.error);
    return null;
  }
  const { predicted, drawn } = answer;
  if (drawn) return "random";
  if (!(predicted! <= PREDICTED_TOLERANCE)) {
    miss("predict", `off by ${predicted!.toExponential(1)} of the largest prediction`);
  }
  return predicted;
}

/** What a run says of its graph at its start. */
function shapeOf({ said }: Trained): { operations: number; blocks: number } {
  const found = (pattern: RegExp) => Number(pattern.exec(said)?.[1].replaceAll(",", "") ?? 0);
  return { operations: found(/([\d,]+) operations in/), blocks: found(/operations in (\d+) block/) };
}
