// Training in processes of its own, timed by the events it writes: what the benchmarks of ranks have in common.
import { join } from "paths";
import type { Event } from "../core/run/events.ts";
import { median } from "./report.ts";

export interface RankWorkload {
  readonly title: string;
  readonly batch: number;
  readonly flags: readonly string[];
}

export const rankWorkloads = {
  convnet: {
    title: "simple-convnet, 28 x 28, batch 64 a rank",
    batch: 64,
    flags: ["--model=simple-convnet"],
  },
  gpt: {
    title: "GPT 4 layers x 128, batch 12 x 64 a rank",
    batch: 12,
    flags: [
      ...["--model=gpt", "--set=model.vocab_size=65", "--set=model.context=64"],
      ...["--set=model.layers=4", "--set=model.embed=128", "--set=model.heads=4", "--dropout=0"],
    ],
  },
} satisfies Readonly<Record<string, RankWorkload>>;

const MOST_RANKS = 2;

/**
 * `hpctrain train` on one thread a rank, with a line of events for each step. No epoch ends before its last one: the save
 * there would be a part of what is compared, and the other side makes none.
 */
export const trainArguments = ({ flags, batch }: RankWorkload, steps: number, folder: string): string[] => [
  ...["train", ...flags, "--data-type=synthetic", `--train-samples=${MOST_RANKS * batch * steps}`],
  ...["--val-samples=0", "--device=cpu", "--threads=1"],
  ...[`--batch-size=${batch}`, "--epochs=1000", `--max-steps=${steps}`, "--log-interval=1"],
  ...["--optimizer=adamw", "--weight-decay=0.01", "--run-name=r", `--save-dir=${folder}`],
  ...["--no-wandb", "--quiet"],
];

const eventsIn = (folder: string): Event[] =>
  Deno.readTextFileSync(join(folder, "logs/r/events.jsonl")).trim().split("\n").map((line) =>
    JSON.parse(line)
  );

/** Unix seconds at which the steps of a run ended that was told `folder`. */
export const stepsIn = (folder: string): number[] =>
  eventsIn(folder).filter(({ kind }) => kind === "step").map(({ t }) => t);

/** Seconds in a step, on average, that such a run waited for communication: on rank 0, when all was warm. */
export function waitedIn(folder: string, warm: number): number {
  const times = eventsIn(folder).flatMap((event) =>
    event.kind === "times" && event.step > warm ? [event] : []
  );
  const sum = (of: "steps" | "communication_s") => times.reduce((all, event) => all + event[of], 0);
  return sum("communication_s") / sum("steps");
}

/** In a folder that is gone afterwards. */
export async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = Deno.makeTempDirSync();
  try {
    return await use(folder);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** Returns what the program printed, and throws its errors when it failed. */
export async function run(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args], env, stdin: "null" })
    .output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) {
    throw new Error(`${program} ${args.join(" ")} failed: ${(text(stderr) + text(stdout)).slice(-2000)}`);
  }
  return text(stdout);
}

/** PyTorch's DistributedDataParallel under torchrun, as peers/ddp.py has it. */
export const torchrunArguments = (ranks: number, name: string, steps: number): string[] => [
  ...["-m", "torch.distributed.run", "--nproc-per-node", `${ranks}`, "--standalone"],
  ...[new URL("peers/ddp.py", import.meta.url).pathname, name, `${steps}`],
];

export const TORCHRUN_ENV = { OMP_NUM_THREADS: "1", PYTHONDONTWRITEBYTECODE: "1" };

/** Reads what peers/ddp.py printed: when its steps ended, and the samples of a step of all ranks. */
export const torchrunOutput = (said: string): { done: number[]; batch: number } =>
  JSON.parse(said.split("\n").find((line) => line.startsWith("{")) ?? "");

/** When all were warm and none had ended: a run that is alone at its end has the machine for itself there. */
function beside(runs: readonly (readonly number[])[], warm: number): number[][] {
  const from = Math.max(...runs.map((done) => done[warm]));
  const to = Math.min(...runs.map((done) => done[done.length - 1]));
  const inside = runs.map((done) => done.filter((t) => t >= from && t <= to));
  const fewest = Math.min(...inside.map((done) => done.length));
  if (fewest >= 3) return inside;
  throw new Error(
    `${fewest} steps ended while all runs were warm: too few. Take more, or a quieter machine.`,
  );
}

/** Steps a second of runs that went on beside each other, of all together; `runs`: Unix seconds at which steps ended. */
export const rateBeside = (runs: readonly (readonly number[])[], warm: number): number =>
  beside(runs, warm).reduce((sum, done) => sum + (done.length - 1) / (done[done.length - 1] - done[0]), 0);

/**
 * The same if each step of theirs took as long as the slowest one's, as it does with ranks, which wait for each other: what
 * is to be had where they send each other nothing.
 */
export function rateInStep(runs: readonly (readonly number[])[], warm: number): number {
  const steps = beside(runs, warm).map((done) => done.slice(1).map((t, i) => t - done[i]));
  const count = Math.min(...steps.map(({ length }) => length));
  const slowest = Array.from({ length: count }, (_, i) => Math.max(...steps.map((of) => of[i])));
  return runs.length * count / slowest.reduce((sum, seconds) => sum + seconds, 0);
}

/** Seconds of a step of such runs: the median, which what else the machine does now and then leaves alone. */
export const stepBeside = (runs: readonly (readonly number[])[], warm: number): number =>
  median(beside(runs, warm).flatMap((done) => done.slice(1).map((t, i) => t - done[i])));
