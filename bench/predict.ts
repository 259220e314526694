// `scripts/bench predict`: what the model of a step says of 1, 2 and 4 ranks, beside what they measure on hosts with links of a
// set speed. It knows one rank's run, and a bench of the network on two hosts.
import { join } from "paths";
import { type Predicted, predictStep } from "../core/outputs/prediction.ts";
import { fittedLink } from "../commands/run/bench_prediction.ts";
import { type RecordedStep, recordedStepOf } from "../core/outputs/recorded_step.ts";
import { type Host, openHost, stolenSoFar, turns } from "./contestant.ts";
import {
  inFolder,
  type RankWorkload,
  rankWorkloads,
  run,
  stepBeside,
  stepsIn,
  trainArguments,
} from "./ranks.ts";
import { writePage } from "./page.ts";
import { machine, median, table, writeResults } from "./report.ts";
import { type Hosts, onCore, withHosts } from "./shaped_hosts.ts";
import type { Programs } from "./step.ts";

const GBIT = 1, HOSTS = 4, RANKS = [1, 2, 4] as const;
const MEGABYTE = 2 ** 20;
/** Ranks on CPUs have these, unless --bucket-mb says another. */
const BUCKET = 4 * MEGABYTE;

interface Extent {
  readonly rounds: number;
  readonly steps: number;
  readonly warm: number;
}

const FULL: Extent = { rounds: 2, steps: 26, warm: 5 }, QUICK: Extent = { rounds: 1, steps: 12, warm: 3 };

const compared: readonly RankWorkload[] = [
  {
    title: "MLP 7-1536-1536-1536-1536-1, batch 512 a rank",
    batch: 512,
    flags: ["--model=mlp", "--hidden-size=1536", "--layers=4", "--train-samples=20480"],
  },
  rankWorkloads.convnet,
];

interface Compared {
  readonly title: string;
  readonly ranks: number;
  readonly measured: readonly number[];
  readonly predicted: Predicted;
}

type Link = ReturnType<typeof fittedLink> & { readonly busy: number };

/** `quick`: to see that it runs; nothing is written. */
export async function predictBenchmark({ exe }: Pick<Programs, "exe">, quick = false): Promise<void> {
  const about = machine(), extent = quick ? QUICK : FULL;
  const host = openHost();
  const found = await withHosts(HOSTS, GBIT * 1e9, async (hosts) => {
    const links: Record<number, Link[]> = { 1: [NO_LINK], 2: [], 4: [] };
    const all: Compared[] = [];
    for (const workload of compared) {
      const measured: Record<number, number[]> = { 1: [], 2: [], 4: [] };
      const recorded: Record<number, RecordedStep[]> = { 1: [], 2: [], 4: [] };
      for (const [ranks, round] of turns(RANKS, extent.rounds + 1, quick ? 1 : 0)) {
        if (ranks > 1 && round > 0) links[ranks].push(await host.turn(() => measureLink(exe, hosts, ranks)));
        const step = await host.turn(() =>
          inFolder(async (folder) => {
            await together(exe, hosts, ranks, trainArguments(workload, extent.steps, folder));
            return stepBeside([stepsIn(folder)], extent.warm);
          })
        );
        if (round === 0) continue; // it brings files into memory
        measured[ranks].push(step);
        recorded[ranks].push(await host.turn(() => beside(exe, hosts, ranks, workload, extent)));
      }
      for (const ranks of RANKS) {
        const one = {
          title: workload.title,
          ranks,
          measured: measured[ranks],
          predicted: predictStep(middleOf(recorded[ranks]), ranks, clusterOf(middleOf(links[ranks]))),
        };
        all.push(one);
        console.log(rowOf(one).join("  "));
      }
    }
    return { links: { 2: middleOf(links[2]), 4: middleOf(links[4]) }, all };
  });
  if (!quick) write(about, host, found);
}

/** The recorded runs have had what a rank has of a core. */
function clusterOf({ alpha, beta, busy }: Link) {
  const link = { alpha, beta };
  return {
    ...{ between: link, within: link, ranksPerNode: 1, busy, bucketBytes: BUCKET, accumulation: 1 },
    ...{ cores: 1, mtbf: Infinity, restart: 0 },
  };
}

/** Runs of one rank beside each other, as many as there will be ranks: they send each other nothing and share the machine. */
async function beside(
  exe: string,
  hosts: Hosts,
  ranks: number,
  workload: RankWorkload,
  { steps }: Extent,
): Promise<RecordedStep> {
  const all = await Promise.all(
    Array.from({ length: ranks }, (_, node) =>
      inFolder(async (folder) => {
        await start(hosts, node, [exe, ...trainArguments(workload, steps, folder)]);
        return recordedStepOf(join(folder, "logs/r"));
      })),
  );
  return middleOf(all);
}

/** Each number's median. */
function middleOf<T extends object>(of: readonly T[]): T {
  const keys = Object.keys(of[0]) as (keyof T)[];
  const middle = (key: keyof T) =>
    typeof of[0][key] === "number" ? median(of.map((one) => one[key] as number)) : of[0][key];
  return Object.fromEntries(keys.map((key) => [key, middle(key)])) as T;
}

/**
 * The links of so many hosts. What it computes is mostly the kernel's, in nobody's name: the processor time of the whole machine
 * counts, of a longer measurement less a shorter one, which has the same start.
 */
async function measureLink(exe: string, hosts: Hosts, ranks: number): Promise<Link> {
  const measure = async (sizes: string) => {
    const words = ["bench", "allreduce", `--sizes=${sizes}`, "--device=cpu", "--threads=1", "--json"];
    const before = stolenSoFar(), began = performance.now();
    const [said] = await together(exe, hosts, ranks, words);
    const seconds = (performance.now() - began) / 1000;
    const used = (stolenSoFar().asked - before.asked) / TICKS;
    return {
      seconds,
      used,
      measured: JSON.parse(said.split("\n").find((line) => line.startsWith("{"))!).measured,
    };
  };
  const short = await measure("4MiB"), long = await measure("1MiB,2MiB,4MiB,8MiB");
  const busy = (long.used - short.used) / (long.seconds - short.seconds) / ranks;
  return { ...fittedLink(long.measured, ranks), busy };
}

/** One rank has none. */
const NO_LINK: Link = { alpha: 0, beta: 0, busy: 0 };

/** Ticks a second of /proc/stat. */
const TICKS = 100;

/** A rank on each host, by TCP. */
async function together(
  exe: string,
  hosts: Hosts,
  ranks: number,
  words: readonly string[],
): Promise<string[]> {
  if (ranks === 1) return [await start(hosts, 0, [exe, ...words])];
  const listener = Deno.listen({ port: 0 }); // free here, and so in an empty namespace
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const secret = crypto.randomUUID() + crypto.randomUUID();
  const launch = (node: number) => ["launch", "-n", "1", "--nodes", `${ranks}`, "--node-rank", `${node}`];
  const where = [
    "--rendezvous",
    `${hosts.addresses[0]}:${port}`,
    "--",
    ...words,
    "--distributed-backend=tcp",
  ];
  return await Promise.all(
    Array.from(
      { length: ranks },
      (_, node) => start(hosts, node, [exe, ...launch(node), ...where], { HPCTRAIN_SECRET: secret }),
    ),
  );
}

function start(hosts: Hosts, node: number, words: readonly string[], env = {}): Promise<string> {
  const [program, ...args] = [
    ...hosts.enter[node],
    ...onCore(node % navigator.hardwareConcurrency),
    ...words,
  ];
  return run(program, args, env);
}

const milliseconds = (seconds: number) => `${(1000 * seconds).toFixed(0)} ms`;

const saidLink = ({ alpha, beta, busy }: Link) =>
  `${(1e6 * alpha).toFixed(0)} us, ${(1 / beta / 1e6).toFixed(0)} MB/s and ${busy.toFixed(2)} cores busy`;

function rowOf({ title, ranks, measured, predicted }: Compared): string[] {
  const middle = median(measured), apart = predicted.step / middle - 1;
  return [
    title,
    `${ranks}`,
    milliseconds(predicted.step),
    `${milliseconds(middle)} (${milliseconds(Math.min(...measured))} to ${
      milliseconds(Math.max(...measured))
    })`,
    `${apart < 0 ? "" : "+"}${(100 * apart).toFixed(1)}%`,
    milliseconds(predicted.communication),
    milliseconds(predicted.exposed),
  ];
}

function write(
  about: ReturnType<typeof machine>,
  host: Host,
  { links, all }: { readonly links: Readonly<Record<2 | 4, Link>>; readonly all: readonly Compared[] },
): void {
  const date = new Date().toISOString().slice(0, 10);
  const { rounds, steps, warm } = FULL;
  writeResults("predict", {
    command: "./scripts/bench predict",
    date,
    machine: about,
    gbit: GBIT,
    links,
    found: all,
  });
  const worst = Math.max(
    ...all.map(({ measured, predicted }) => Math.abs(predicted.step / median(measured) - 1)),
  );
  writePage(
    "predict",
    [
      "# Predictions, beside what was measured",
      `\`./scripts/bench predict\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before. One rank of one ` +
      `thread on each of up to ${HOSTS} network namespaces, which send ${GBIT} Gbit/s each through a bridge (veth, tc tbf), by ` +
      `hpctrain's own TCP. All hosts are this machine and share its ${about.cores} cores and its memory. The model (docs/design/scale.md) ` +
      "was therefore given, for each number of ranks, as many runs of one rank beside each other that send nothing, and " +
      `\`bench allreduce\` on as many hosts: ${saidLink(links[2])} on two, and ${
        saidLink(links[4])
      } on four. A step, medians of ${rounds} ` +
      `rounds in which all take turns (least to most), ${steps - warm} warm steps each. 10% is ` +
      `asked for; the worst is ${(100 * worst).toFixed(1)}%. ${host.said()}`,
      table(
        ["A step", "Ranks", "Predicted", "Measured", "Apart", "All-reduces", "Not hidden"],
        all.map(rowOf),
      ),
    ].join("\n\n"),
  );
}
