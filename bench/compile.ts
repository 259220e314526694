// `scripts/bench compile`: training steps as machine code, beside ordinary ones, PyTorch's eager ones and torch.compile's.
import { messageOf } from "../core/base/errors.ts";
import { compiledWorkloads } from "./compile_models.ts";
import { type Contestant, openHost, type Round, startContestant, turns } from "./contestant.ts";
import { join } from "paths";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { type Workload, workloads } from "./workloads.ts";

const peers = new URL("peers/", import.meta.url).pathname;
const ROUNDS = 7, WARM_UP = 20;
/** A round of --quick has this part of the steps, and there are so many rounds. */
const QUICK = { part: 20, rounds: 2 };

const SIDES = ["eager", "compile", "reduce-overhead", "off", "exact", "fast"] as const;
type Side = typeof SIDES[number];

const SHOWN: Record<Side, string> = {
  eager: "PyTorch eager",
  compile: "torch.compile",
  "reduce-overhead": "torch.compile, reduce-overhead",
  off: "hpctrain",
  exact: "hpctrain --compile=exact",
  fast: "hpctrain --compile=fast",
};

/** Models, and the numbers of threads that they are measured with. */
const CASES: readonly (readonly [name: string, workload: Workload, threads: readonly number[]])[] = [
  ["mlp", workloads.mlp, [1]],
  ["icenet", compiledWorkloads.icenet, [1]],
  ["tanh", compiledWorkloads.tanh, [1]],
  ["pinn", compiledWorkloads.pinn, [1]],
  ["ode", compiledWorkloads.ode, [1]],
  ["gpt", workloads.gpt, [1, 2]],
  ["resnet18", workloads.resnet18, [1, 2]],
  ["convnet", workloads.convnet, [1, 2]],
  ["cosmo", workloads.cosmo, [1, 2]],
];

interface Measured {
  readonly title: string;
  /** Microseconds a step. */
  readonly rounds: Partial<Record<Side, number[]>>;
  /** Bytes. */
  readonly peak: Partial<Record<Side, number>>;
  /** Seconds of the first steps: what making code takes is in them. */
  readonly first: Partial<Record<Side, number>>;
  /** Seconds from the first ordinary step's end to the first compiled one's: making code and comparing are in them. */
  readonly compiled: Partial<Record<Side, number>>;
  readonly missing: Partial<Record<Side, string>>;
}

const commandOf = (p: Programs, side: Side, name: string, threads: number): [string, string[]] =>
  side === "off" || side === "exact" || side === "fast"
    ? [p.worker, [name, "-1", "", side, String(threads)]]
    : [p.python, [join(peers, "step.py"), name, side, String(threads)]];

async function measure(
  p: Programs,
  name: string,
  workload: Workload,
  threads: number,
  quick: boolean,
): Promise<Measured> {
  const steps = quick ? Math.ceil(workload.steps / QUICK.part) : workload.steps;
  const host = openHost(), running = new Map<Side, Contestant>();
  const measured: Measured = {
    title: `${workload.title}; ${threads === 1 ? "one thread" : `${threads} threads`}`,
    rounds: {},
    peak: {},
    first: {},
    compiled: {},
    missing: {},
  };
  const losses = new Map<Side, Round>();
  for (const side of SIDES) {
    try {
      const contestant = await startContestant(...commandOf(p, side, name, threads));
      measured.first[side] = (await contestant.round(1)).seconds + (await contestant.round(1)).seconds;
      const warm = await contestant.round(WARM_UP);
      losses.set(side, warm);
      if (warm.compiled !== undefined) measured.compiled[side] = warm.compiled;
      running.set(side, contestant);
      measured.rounds[side] = [];
    } catch (error) {
      if (side !== "compile" && side !== "reduce-overhead") throw error; // they need a C++ compiler
      measured.missing[side] = messageOf(error).split("\n").slice(-1).join().replaceAll(/\/\S*\//g, "");
    }
  }
  sameTraining(name, losses);
  for (const contestant of running.values()) await contestant.round(steps);
  for (const [[side, contestant]] of turns(running, quick ? QUICK.rounds : ROUNDS)) {
    const { seconds, peak } = await host.turn(() => contestant.round(steps));
    measured.rounds[side]!.push(Math.round(seconds / steps * 1e8) / 100);
    measured.peak[side] = peak;
  }
  for (const contestant of running.values()) await contestant.end();
  return measured;
}

/** All train the same: code that rounds elsewhere may be a hundredth off. */
function sameTraining(name: string, losses: ReadonlyMap<Side, Round>): void {
  const expected = losses.get("eager")!.loss;
  for (const [side, { loss }] of losses) {
    if (Math.abs(loss - expected) <= 0.01 * Math.abs(expected) + 1e-3) continue;
    throw new Error(`${name}: ${side} has loss ${loss} after the warm-up, PyTorch eager ${expected}`);
  }
  const { off, exact } = Object.fromEntries(losses);
  if (off.loss !== exact.loss) {
    throw new Error(`${name}: the exact plan has loss ${exact.loss}, not ${off.loss}`);
  }
}

const short = (microseconds: number): string =>
  microseconds < 10_000 ? `${microseconds.toFixed(0)} us` : `${(microseconds / 1000).toFixed(1)} ms`;

function rowsOf({ title, rounds, peak, first, compiled, missing }: Measured): string[][] {
  const eager = median(rounds.eager!);
  return SIDES.map((side, i) => {
    const begin = [i === 0 ? title : "", SHOWN[side]];
    const own = rounds[side];
    if (own === undefined) return [...begin, `can't run here: ${missing[side]}`, "", "", "", ""];
    return [
      ...begin,
      short(median(own)),
      `${(eager / median(own)).toFixed(2)}x`,
      `${first[side]!.toFixed(2)} s`,
      compiled[side] === undefined ? "" : `${compiled[side].toFixed(2)} s`,
      `${(peak[side]! / 2 ** 20).toFixed(0)} MB`,
    ];
  });
}

export async function compileBenchmark(p: Programs, quick: boolean): Promise<void> {
  const about = machine(), found: Measured[] = [];
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  for (const [name, workload, threads] of CASES) {
    for (const count of quick ? [1] : threads) {
      found.push(await measure(p, name, workload, count, quick));
      for (const row of rowsOf(found.at(-1)!)) console.log(`  ${row.join("  ")}`);
    }
  }
  if (quick) return;
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  writeResults("compile", {
    command: "./scripts/bench compile",
    date,
    machine: about,
    versions,
    cases: found,
  });
  writePage(
    "compile",
    [
      "# Compiled steps on a CPU",
      `\`./scripts/bench compile\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. Medians of ${ROUNDS} rounds in ` +
      "which the programs take turns. All train the same model on the same batch, which is checked by their losses; the " +
      "exact plan's loss is that of hpctrain without one, to the last bit. Where an exact plan has no proven order, its " +
      "steps run op by op. The first two steps are those in which code is made. To the first compiled step: from the end " +
      "of the first ordinary pass on, with all that is compared and recorded on the way.",
      "A bare loop around one batch is timed, by a program of the benchmark's own. A run's loop comes on top, with its " +
      "data, losses and records: that is little of a step of milliseconds, and much of the small MLP's compiled one. " +
      "`./scripts/bench step` times steps of whole runs by their command lines, and `./scripts/bench jobs` whole jobs.",
      table(
        [
          "Training step",
          "",
          "Median",
          "Speed against eager",
          "First two steps",
          "To the first compiled step",
          "Peak memory",
        ],
        found.flatMap(rowsOf),
      ),
    ].join("\n\n"),
  );
}
