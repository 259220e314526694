// `scripts/bench step`: a training step, start-up and memory beside Python PyTorch, in one run. May import its siblings.
import { dirname, join } from "@std/path";
import { type Contestant, type Round, startContestant } from "./contestant.ts";
import { type Host, openHost } from "./host.ts";
import { machine, median, table, versionsOf, writeResults, writeSection } from "./report.ts";
import { COLD, type Starter, startups } from "./startup.ts";
import { type Name, workloads } from "./workloads.ts";

const peers = new URL("peers/", import.meta.url).pathname;
const ROUNDS = 9, COLD_ROUNDS = 5, WARM_UP = 20;
const SIDES = ["hpctrain", "eager", "compile"] as const;
type Side = typeof SIDES[number];

export interface Programs {
  /** The executable, what bench's workers were compiled to, a Python with torch, and libtorch's folder. */
  readonly exe: string;
  readonly worker: string;
  readonly loader: string;
  readonly save: string;
  readonly python: string;
  readonly libtorch: string;
  /** Where a benchmark may keep its files from one time to the next. */
  readonly data: string;
}

interface Measured {
  readonly rounds: Record<Side, number[]>;
  readonly peak: Record<Side, number>;
  readonly missing: Partial<Record<Side, string>>;
}

const commandOf = (p: Programs, side: Side, name: Name): [string, string[]] =>
  side === "hpctrain" ? [p.worker, [name]] : [p.python, [join(peers, "step.py"), name, side]];

/** Rounds of each side in turn, in microseconds a step; a side that can't run says why instead. */
async function measure(p: Programs, host: Host, name: Name): Promise<Measured> {
  const { steps } = workloads[name];
  const running = new Map<Side, Contestant>();
  const missing: Measured["missing"] = {};
  const first = new Map<Side, Round>();
  for (const side of SIDES) {
    try {
      const contestant = await startContestant(...commandOf(p, side, name));
      running.set(side, contestant);
      first.set(side, await contestant.round(WARM_UP));
    } catch (error) {
      if (side !== "compile") throw error; // it needs a C++ compiler, which a machine may lack
      missing[side] = (error as Error).message.split("\n").at(-1)!.replaceAll(/\/\S*\//g, ""); // no paths
    }
  }
  sameTraining(name, first);
  const rounds: Measured["rounds"] = { hpctrain: [], eager: [], compile: [] };
  const peak: Measured["peak"] = { hpctrain: 0, eager: 0, compile: 0 };
  for (const contestant of running.values()) await contestant.round(steps);
  for (let round = 0; round < ROUNDS; round++) {
    const order = [...running.keys()];
    for (const side of round % 2 === 0 ? order : order.reverse()) {
      const { seconds, peak: bytes, tensors } = await host.turn(() => running.get(side)!.round(steps));
      if (tensors !== first.get(side)!.tensors) {
        throw new Error(`${name}: ${side} leaks: it has ${tensors} tensors now.`);
      }
      rounds[side].push(Math.round(seconds / steps * 1e8) / 100);
      peak[side] = bytes;
    }
  }
  for (const contestant of running.values()) await contestant.end();
  return { rounds, peak, missing };
}

/**
 * A comparison is one only if all train the same: after the warm-up the losses agree. Compiled code rounds elsewhere,
 * and a loss near zero has few digits, so a thousandth either way is agreement too.
 */
function sameTraining(name: Name, first: ReadonlyMap<Side, Round>): void {
  const expected = first.get("eager")!.loss;
  for (const [side, { loss }] of first) {
    if (Math.abs(loss - expected) <= 0.01 * Math.abs(expected) + 1e-3) continue;
    throw new Error(`${name}: after ${WARM_UP} steps ${side} has loss ${loss}, PyTorch eager ${expected}`);
  }
}

function starters(p: Programs, saveDir: string): Starter[] {
  const flags =
    "--model mlp --set model.hidden_size=128 --data-type synthetic --train-samples 64 --val-samples 32 " +
    "--batch-size 32 --max-steps 1 --log-interval 1 --threads 1 --no-wandb --json";
  const args = ["train", ...flags.split(" "), "--save-dir", saveDir];
  const site = new TextDecoder().decode(
    new Deno.Command(p.python, {
      args: [
        "-c",
        "import os, sys, torch; print(os.path.dirname(os.path.dirname(torch.__file__))); print(os.__file__)",
      ],
    }).outputSync().stdout,
  ).trim().split("\n");
  return [
    { name: "hpctrain", program: p.exe, args, says: /"kind":"step"/, files: [p.exe, p.libtorch] },
    {
      name: "eager",
      program: p.python,
      args: [join(peers, "first_step.py")],
      says: /^step /,
      files: [site[0], dirname(site[1])],
    },
  ];
}

export async function stepBenchmark(p: Programs): Promise<void> {
  const about = machine(), host = openHost();
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const steps = {} as Record<Name, Measured>;
  for (const name of Object.keys(workloads) as Name[]) {
    console.log(workloads[name].title);
    steps[name] = await measure(p, host, name);
    for (const row of stepRows(name, steps[name])) console.log(`  ${row.join("  ")}`);
  }
  const saveDir = Deno.makeTempDirSync();
  try {
    console.log("Start-up to the first step done");
    const both = starters(p, saveDir);
    const warm = await startups(both, p.python, ROUNDS, false);
    const cold = await startups(both, p.python, COLD_ROUNDS, true);
    for (const row of startRows(warm, cold)) console.log(`  ${row.join("  ")}`);
    write(p, about, host, steps, { warm, cold });
  } finally {
    Deno.removeSync(saveDir, { recursive: true });
  }
}

type Starts = Record<"warm" | "cold", Record<string, number[]>>;

const times = (ratio: number) => `${ratio.toFixed(2)}x`;
const SHOWN: Record<Side, string> = {
  hpctrain: "hpctrain",
  eager: "PyTorch eager",
  compile: "PyTorch torch.compile",
};

function stepRows(name: Name, m: Measured): string[][] {
  const eager = median(m.rounds.eager);
  return SIDES.map((side) => {
    const title = side === "hpctrain" ? workloads[name].title : "";
    if (m.missing[side]) return [title, SHOWN[side], "can't run here", "", "", ""];
    const own = median(m.rounds[side]);
    const spread = (Math.max(...m.rounds[side]) - Math.min(...m.rounds[side])) / own;
    const megabytes = m.peak[side] / 2 ** 20;
    return [
      title,
      SHOWN[side],
      own < 10_000 ? `${own.toFixed(0)} us` : `${(own / 1000).toFixed(1)} ms`,
      `${(100 * spread).toFixed(0)}%`,
      times(eager / own),
      `${megabytes.toFixed(0)} MB (${times(m.peak[side] / m.peak.eager)})`,
    ];
  });
}

function startRows(warm: Starts["warm"], cold: Starts["cold"]): string[][] {
  return ["hpctrain", "eager"].map((side) => {
    const cells = [warm, cold].flatMap((s) => {
      const own = median(s[side]);
      return [`${own.toFixed(2)} s`, times(median(s.eager) / own)];
    });
    return [SHOWN[side as Side], ...cells];
  });
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  host: Host,
  steps: Record<Name, Measured>,
  starts: Starts,
): void {
  const versions = versionsOf(p);
  const results = {
    command: "./scripts/bench step",
    date: new Date().toISOString().slice(0, 10),
    machine: about,
    versions,
    taken: host.taken,
    stepMicroseconds: Object.fromEntries(
      Object.entries(steps).map(([name, m]) => [name, {
        title: workloads[name as Name].title,
        stepsPerRound: workloads[name as Name].steps,
        ...m,
      }]),
    ),
    startSeconds: { ...starts, note: COLD },
  };
  writeResults("step", results);
  const stepTable = table(
    ["Training step", "", "Median", "Spread", "Speed against eager", "Peak memory"],
    (Object.keys(steps) as Name[]).flatMap((name) => stepRows(name, steps[name])),
  );
  const startTable = table(
    ["Start to first step done", "Warm", "Against Python", "Cold", "Against Python"],
    startRows(starts.warm, starts.cold),
  );
  writeSection(
    "step",
    [
      "## A training step, start-up and memory",
      `\`./scripts/bench step\` on ${results.date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ${versions.libtorch}, ` +
      `Python ${versions.python} with PyTorch ${versions.torch}. Medians of ${ROUNDS} rounds in which the programs take ` +
      "turns; spread is the slowest round less the fastest, against the median. Both sides train the same model on the " +
      "same batch, which is checked by their losses; PyTorch with fused optimizers and gradients set to None. The loss " +
      `is read back once a round. ${host.said()}`,
      stepTable,
      `Cold: ${COLD}. Medians of ${COLD_ROUNDS}.`,
      startTable,
    ].join("\n\n"),
  );
}
