// `scripts/bench ddp`: two ranks of one thread each, beside PyTorch's DistributedDataParallel over Gloo, beside one
// rank, and beside two runs of one rank that have nothing to tell each other: what the machine itself has to give.
import { join } from "paths";
import { type Host, openHost } from "./contestant.ts";
import {
  inFolder,
  type RankWorkload,
  rankWorkloads,
  rateBeside,
  rateInStep,
  run,
  stepsIn,
  TORCHRUN_ENV,
  torchrunArguments,
  torchrunOutput,
  trainArguments,
} from "./ranks.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";

const RANKS = 2;

interface Extent {
  readonly rounds: number;
  readonly steps: number;
  /** Steps at the beginning that don't count. */
  readonly warm: number;
}

const FULL: Extent = { rounds: 3, steps: 60, warm: 15 }, QUICK: Extent = { rounds: 1, steps: 12, warm: 3 };

interface Timed {
  /** Samples a second when all is warm. */
  readonly rate: number;
  /** The same of runs beside each other, if each step took as long as the slower one's. */
  readonly inStep: number;
  /** Seconds from the start of the command to the end of the first step. */
  readonly first: number;
}

/** `apart`: as many runs of one rank as there are ranks, at the same time. */
const sides = ["one", "apart", "two", "torchrun"] as const;
type Side = typeof sides[number];
type Rounds = Record<Side, Timed[]>;

/** `quick`: to see that it runs; nothing is written. */
export async function ddpBenchmark(p: Programs, mpi: string, quick = false): Promise<void> {
  const about = machine(), extent = quick ? QUICK : FULL;
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const found: Record<string, Rounds> = {};
  const host = openHost();
  for (const [name, workload] of Object.entries(rankWorkloads)) {
    const rounds: Rounds = { one: [], apart: [], two: [], torchrun: [] };
    for (let round = quick ? 1 : 0; round <= extent.rounds; round++) {
      for (const side of sides) {
        const timed = await host.turn(() => sideOf(p, mpi, side, name, workload, extent));
        if (round > 0) rounds[side].push(timed); // the first brings files into memory
      }
    }
    found[name] = rounds;
    console.log(rowOf(workload, rounds).join("  "));
  }
  if (!quick) write(p, about, host, found);
}

function sideOf(
  { exe, python }: Programs,
  mpi: string,
  side: Side,
  name: string,
  workload: RankWorkload,
  { steps, warm }: Extent,
): Promise<Timed> {
  const began = Date.now() / 1000;
  if (side === "torchrun") {
    return run(python, torchrunArguments(RANKS, name, steps), TORCHRUN_ENV).then((said) => {
      const { done, batch } = torchrunOutput(said);
      return timedOf([done], began, batch, warm);
    });
  }
  const launcher = side === "two" ? [join(mpi, "bin/mpiexec"), "-n", `${RANKS}`] : [];
  const runOne = () =>
    inFolder(async (folder) => {
      const [program, ...args] = [...launcher, exe, ...trainArguments(workload, steps, folder)];
      await run(program, args);
      return stepsIn(folder);
    });
  const runs = Array.from({ length: side === "apart" ? RANKS : 1 }, runOne);
  const batch = workload.batch * (side === "two" ? RANKS : 1);
  return Promise.all(runs).then((all) => timedOf(all, began, batch, warm));
}

/** `done`: Unix seconds at which steps of each run ended. */
const timedOf = (done: readonly number[][], began: number, batch: number, warm: number): Timed => ({
  rate: batch * rateBeside(done, warm),
  inStep: batch * rateInStep(done, warm),
  first: Math.max(...done.map(([first]) => first)) - began,
});

const ratios = (a: readonly Timed[], b: readonly Timed[], of: keyof Timed, to = of) =>
  a.map((timed, i) => timed[of] / b[i][to]);
const times = (all: readonly number[]) =>
  `${median(all).toFixed(2)}x (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`;
const percent = (share: number) => `${(100 * share).toFixed(0)}%`;

/** Medians over the rounds: `roof` is the machine's own limit, `ours` the share of it that is reached. */
export function efficiencies({ one, apart, two }: Omit<Rounds, "torchrun">) {
  return {
    efficiency: median(ratios(two, one, "rate")) / RANKS,
    roof: median(ratios(apart, one, "inStep", "rate")) / RANKS,
    ours: median(ratios(two, apart, "rate", "inStep")),
  };
}

function rowOf({ title }: RankWorkload, rounds: Rounds): string[] {
  const rate = (side: Side) => `${Math.round(median(rounds[side].map(({ rate }) => rate)))}`;
  const first = (side: Side) => `${median(rounds[side].map(({ first }) => first)).toFixed(2)} s`;
  const { efficiency, roof, ours } = efficiencies(rounds);
  return [
    title,
    ...sides.map(rate),
    times(ratios(rounds.two, rounds.torchrun, "rate")),
    ...[efficiency, roof, ours].map(percent),
    `${first("two")}, ${first("torchrun")}: ${times(ratios(rounds.torchrun, rounds.two, "first"))}`,
  ];
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  host: Host,
  found: Record<string, Rounds>,
): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  const { rounds, steps, warm } = FULL;
  const name = `${about.cpu}-${about.cores}`.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  writeResults(`ddp-${name}`, {
    command: "./scripts/bench ddp",
    date,
    machine: about,
    versions,
    taken: host.taken,
    ...found,
  });
  writePage(
    "ddp",
    [
      "# Ranks, beside PyTorch's DistributedDataParallel",
      `\`./scripts/bench ddp\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. ${RANKS} ranks of one thread each: ` +
      "hpctrain by MPICH, PyTorch by torchrun over Gloo with batches that lie in memory. Medians of " +
      `${rounds} rounds in which all take turns (least to most), ${
        steps - warm
      } warm steps each. Efficiency is ` +
      `against ${RANKS} times one rank of hpctrain with one thread. The roof is that of ${RANKS} such runs beside each ` +
      "other, which share the machine's memory and caches and send each other nothing, if each step took as long as the " +
      "slower one's, since ranks wait for each other; what is below it is the ranks' " +
      `own cost, and the last share is the efficiency against it. ${host.said()}`,
      table(
        [
          ...["Samples a second", "1 rank", `${RANKS} runs of 1 rank`, `${RANKS} ranks`, "PyTorch"],
          ...["Ratio to PyTorch", "Efficiency", "Roof", "Against the roof"],
          "First step: hpctrain, PyTorch",
        ],
        Object.entries(found).map(([name, rounds]) =>
          rowOf(rankWorkloads[name as keyof typeof rankWorkloads], rounds)
        ),
      ),
    ].join("\n\n"),
  );
}
