// `scripts/bench ddp`: two ranks of one thread each, beside PyTorch's DistributedDataParallel over Gloo and beside one rank.
// May import its siblings, track's types.
import { join } from "@std/path";
import type { Event } from "../core/track/event_types.ts";
import { machine, median, table, versionsOf, writeResults, writeSection } from "./report.ts";
import type { Programs } from "./step.ts";

const RANKS = 2, ROUNDS = 3, STEPS = 60;
/** Steps at the beginning that don't count. */
const WARM = 15;

interface Workload {
  readonly title: string;
  readonly batch: number;
  readonly flags: readonly string[];
}

const workloads: Readonly<Record<string, Workload>> = {
  convnet: {
    title: "simple-convnet, 28 x 28, batch 64 a rank",
    batch: 64,
    flags: ["--model=simple-convnet", "--train-samples=2560"],
  },
  gpt: {
    title: "GPT 4 layers x 128, batch 12 x 64 a rank",
    batch: 12,
    flags: [
      ...["--model=gpt", "--train-samples=480", "--set=model.vocab_size=65", "--set=model.context=64"],
      ...["--set=model.layers=4", "--set=model.embed=128", "--set=model.heads=4", "--dropout=0"],
    ],
  },
};

interface Timed {
  /** Samples a second when all is warm. */
  readonly rate: number;
  /** Seconds from the start of the command to the end of the first step. */
  readonly first: number;
}

const sides = ["one", "two", "torchrun"] as const;
type Side = typeof sides[number];

export async function ddpBenchmark(p: Programs, mpi: string): Promise<void> {
  const about = machine();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const found: Record<string, Record<Side, Timed[]>> = {};
  for (const [name, workload] of Object.entries(workloads)) {
    const rounds: Record<Side, Timed[]> = { one: [], two: [], torchrun: [] };
    for (let round = 0; round <= ROUNDS; round++) {
      for (const side of sides) {
        const timed = side === "torchrun"
          ? await pytorch(p.python, name)
          : await ours(p.exe, side === "one" ? [] : [join(mpi, "bin/mpiexec"), "-n", `${RANKS}`], workload);
        if (round > 0) rounds[side].push(timed); // the first brings files into memory
      }
    }
    found[name] = rounds;
    console.log(rowOf(workload, rounds).join("  "));
  }
  write(p, about, found);
}

async function ours(exe: string, launcher: string[], { flags, batch }: Workload): Promise<Timed> {
  const folder = Deno.makeTempDirSync();
  const [program, ...args] = [
    ...launcher,
    ...[exe, "train", ...flags, "--data-type=synthetic", "--val-samples=0", "--device=cpu", "--threads=1"],
    ...[
      `--batch-size=${batch}`,
      "--epochs=1000",
      `--max-steps=${STEPS}`,
      "--log-interval=1",
      "--optimizer=adamw",
    ],
    ...["--weight-decay=0.01", "--run-name=r", `--save-dir=${folder}`, "--no-wandb", "--quiet"],
  ];
  const began = Date.now() / 1000;
  await run(program, args, {});
  const lines = Deno.readTextFileSync(join(folder, "logs/r/events.jsonl")).trim().split("\n");
  const done = lines.map((line): Event => JSON.parse(line)).filter(({ kind }) => kind === "step").map((
    { t },
  ) => t);
  Deno.removeSync(folder, { recursive: true });
  return timedOf(done, began, batch * (launcher.length > 0 ? RANKS : 1));
}

async function pytorch(python: string, name: string): Promise<Timed> {
  const peer = new URL("peers/ddp.py", import.meta.url).pathname;
  const began = Date.now() / 1000;
  const args = [
    "-m",
    "torch.distributed.run",
    "--nproc-per-node",
    `${RANKS}`,
    "--standalone",
    peer,
    name,
    `${STEPS}`,
  ];
  const said = await run(python, args, { OMP_NUM_THREADS: "1", PYTHONDONTWRITEBYTECODE: "1" });
  const { done, batch } = JSON.parse(said.split("\n").find((line) => line.startsWith("{"))!);
  return timedOf(done, began, batch);
}

/** `done`: Unix seconds at which steps ended. */
function timedOf(done: readonly number[], began: number, batch: number): Timed {
  const steps = done.length - 1 - WARM;
  return { rate: steps * batch / (done.at(-1)! - done[WARM]), first: done[0] - began };
}

async function run(program: string, args: string[], env: Record<string, string>): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args, env, stdin: "null" }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw new Error(`${program} ${args.join(" ")} failed: ${text(stderr).slice(-2000)}`);
  return text(stdout);
}

const ratios = (a: readonly Timed[], b: readonly Timed[], of: keyof Timed) =>
  a.map((timed, i) => timed[of] / b[i][of]);
const times = (all: readonly number[]) =>
  `${median(all).toFixed(2)}x (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`;

function rowOf({ title }: Workload, rounds: Record<Side, Timed[]>): string[] {
  const rate = (side: Side) => `${Math.round(median(rounds[side].map(({ rate }) => rate)))}`;
  const first = (side: Side) => `${median(rounds[side].map(({ first }) => first)).toFixed(2)} s`;
  const efficiency = median(ratios(rounds.two, rounds.one, "rate")) / RANKS;
  return [
    title,
    ...sides.map(rate),
    times(ratios(rounds.two, rounds.torchrun, "rate")),
    `${(100 * efficiency).toFixed(0)}%`,
    `${first("two")}, ${first("torchrun")}: ${times(ratios(rounds.torchrun, rounds.two, "first"))}`,
  ];
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  found: Record<string, Record<Side, Timed[]>>,
): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  const name = `${about.cpu}-${about.cores}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  writeResults(`ddp-${name}`, { command: "./scripts/bench ddp", date, machine: about, versions, ...found });
  writeSection(
    "ddp",
    [
      "## Ranks, beside PyTorch's DistributedDataParallel",
      `\`./scripts/bench ddp\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. ${RANKS} ranks of one thread each: ` +
      "hpctrain by MPICH, PyTorch by torchrun over Gloo with batches that lie in memory. Medians of " +
      `${ROUNDS} rounds in which all take turns (least to most), ${
        STEPS - WARM
      } warm steps each; efficiency is against ` +
      "one rank of hpctrain with one thread.",
      table(
        [
          "Samples a second",
          "1 rank",
          `${RANKS} ranks`,
          "PyTorch",
          "Ratio to PyTorch",
          "Efficiency",
          "First step: hpctrain, PyTorch",
        ],
        Object.entries(found).map(([name, rounds]) => rowOf(workloads[name], rounds)),
      ),
    ].join("\n\n"),
  );
}
