// `scripts/bench exported`: a step of an exported model beside the zoo's own and Python's, and how soon a program of
// 100 MB has done its first step.
import { join } from "paths";
import {
  type Contestant,
  type Host,
  linesOf,
  openHost,
  type Round,
  startContestant,
  turns,
} from "./contestant.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import type { Programs } from "./step.ts";
import { type Name, workloads } from "./workloads.ts";

const peers = new URL("peers/", import.meta.url).pathname;
const ROUNDS = 9, WARM_UP = 20, STARTS = 7;
const NAMES: readonly Name[] = ["resnet18", "gpt"];
const SIDES = ["exported", "zoo", "eager"] as const;
type Side = typeof SIDES[number];

const SHOWN: Record<Side, string> = {
  exported: "exported (.pt2)",
  zoo: "hpctrain's own model",
  eager: "PyTorch eager",
};

function commandOf(p: Programs, side: Side, name: Name, folder: string): [string, string[]] {
  if (side === "eager") return [p.python, [join(peers, "step.py"), name, side]];
  return [p.worker, side === "zoo" ? [name] : [name, "-1", join(folder, `${name}.pt2`)]];
}

/** Rounds of each side in turn, in microseconds a step. */
async function measure(p: Programs, host: Host, name: Name, folder: string): Promise<Record<Side, number[]>> {
  const { steps } = workloads[name];
  const running = new Map<Side, Contestant>();
  const first = new Map<Side, Round>();
  for (const side of SIDES) {
    const contestant = await startContestant(...commandOf(p, side, name, folder));
    running.set(side, contestant);
    first.set(side, await contestant.round(WARM_UP));
  }
  const expected = first.get("eager")!.loss, found = first.get("exported")!.loss;
  if (Math.abs(found - expected) > 1e-2 * Math.abs(expected) + 1e-3) {
    throw new Error(
      `${name}: after ${WARM_UP} steps the exported one has loss ${found}, PyTorch eager ${expected}`,
    );
  }
  const rounds: Record<Side, number[]> = { exported: [], zoo: [], eager: [] };
  for (const [[side, contestant]] of turns(running, ROUNDS)) {
    const { seconds, tensors } = await host.turn(() => contestant.round(steps));
    if (tensors !== first.get(side)?.tensors) throw new Error(`${name}: ${side} leaks`);
    rounds[side].push(Math.round(seconds / steps * 1e8) / 100);
  }
  for (const contestant of running.values()) await contestant.end();
  return rounds;
}

/** Seconds from the program's start to the event of its first step, of a program of 100 MB. */
async function firstStep(p: Programs, folder: string): Promise<number> {
  const saveDir = Deno.makeTempDirSync();
  const flags = "--data-type synthetic --train-samples 64 --val-samples 32 --batch-size 32 --max-steps 1 " +
    "--log-interval 1 --optimizer sgd --no-wandb --json";
  const began = performance.now();
  const child = new Deno.Command(p.exe, {
    args: ["train", "--model", join(folder, "wide.pt2"), ...flags.split(" "), "--save-dir", saveDir],
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let seconds = NaN;
  for await (const line of linesOf(child.stdout)) {
    if (Number.isNaN(seconds) && /"kind":"step"/.test(line)) seconds = (performance.now() - began) / 1000;
  }
  await child.status;
  Deno.removeSync(saveDir, { recursive: true });
  if (Number.isNaN(seconds)) throw new Error("the program of 100 MB did no step");
  return seconds;
}

export async function exportedBenchmark(p: Programs): Promise<void> {
  const about = machine(), host = openHost();
  const folder = Deno.makeTempDirSync();
  try {
    const made = await new Deno.Command(p.python, {
      args: [join(peers, "export.py"), folder],
      stderr: "piped",
    }).output();
    if (!made.success) throw new Error(new TextDecoder().decode(made.stderr));
    const steps = {} as Record<string, Record<Side, number[]>>;
    for (const name of NAMES) {
      steps[name] = await measure(p, host, name, folder);
      for (const row of rowsOf(name, steps[name])) console.log(`  ${row.join("  ")}`);
    }
    const starts: number[] = [];
    for (let i = 0; i < STARTS; i++) starts.push(await host.turn(() => firstStep(p, folder)));
    console.log(`  100 MB to the first step: ${median(starts).toFixed(2)} s`);
    write(p, about, host, steps, starts);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

function rowsOf(name: Name, rounds: Record<Side, number[]>): string[][] {
  return SIDES.map((side, i) => {
    const own = median(rounds[side]);
    return [
      i === 0 ? workloads[name].title : "",
      SHOWN[side],
      `${(own / 1000).toFixed(2)} ms`,
      `${(median(rounds.zoo) / own).toFixed(2)}x`,
      `${(median(rounds.eager) / own).toFixed(2)}x`,
    ];
  });
}

function write(
  p: Programs,
  about: ReturnType<typeof machine>,
  host: Host,
  steps: Record<string, Record<Side, number[]>>,
  starts: number[],
): void {
  const versions = versionsOf(p);
  const date = new Date().toISOString().slice(0, 10);
  const command = "./scripts/bench exported";
  writeResults("exported", {
    command,
    date,
    machine: about,
    versions,
    taken: host.taken,
    stepMicroseconds: steps,
    firstStepSeconds: starts,
  });
  writePage(
    "exported",
    [
      "# Exported programs",
      `\`${command}\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}, Python ${versions.python} with PyTorch ${versions.torch}. Medians of ${ROUNDS} rounds in ` +
      `which the three take turns on the same batch; losses are compared after the warm-up. ${host.said()}`,
      table(
        ["Training step", "", "Median", "Speed against the zoo", "Speed against eager"],
        NAMES.flatMap((name) => rowsOf(name, steps[name])),
      ),
      `A program of 100 MB (25 million weights) has done its first step ${
        median(starts).toFixed(2)
      } s after the start of the executable (median of ${STARTS}).`,
    ].join("\n\n"),
  );
}
