// `scripts/bench overlap`: how much of the all-reduce the backward pass hides, on one host and on two simulated ones.
import { join } from "paths";
import { type Host, openHost, turns } from "./contestant.ts";
import {
  inFolder,
  type RankWorkload,
  rankWorkloads,
  run,
  stepBeside,
  stepsIn,
  trainArguments,
  waitedIn,
} from "./ranks.ts";
import { writePage } from "./page.ts";
import { machine, median, table, versionsOf, writeResults } from "./report.ts";
import { type Hosts, onCore as on, withHosts } from "./shaped_hosts.ts";
import type { Programs } from "./step.ts";

// `scripts/bench overlap`: how much of the communication of two ranks hides behind backward, on a network that is
// slow enough to be felt: two network namespaces and 4 Gbit/s each between them.

const GBIT = 4;

interface Extent {
  readonly rounds: number;
  readonly steps: number;
  readonly warm: number;
}

const FULL: Extent = { rounds: 3, steps: 50, warm: 10 }, QUICK: Extent = { rounds: 1, steps: 14, warm: 4 };

/** With its bytes of gradients, which cross the cable each way in each step. */
const compared: readonly (RankWorkload & { readonly gradients: number })[] = [
  {
    title: "MLP 7-1536-1536-1536-1536-1, batch 256 a rank",
    batch: 256,
    flags: ["--model=mlp", "--hidden-size=1536", "--layers=4", "--train-samples=5120"],
    gradients: 4 * (7 * 1536 + 3 * 1536 * 1536 + 4 * 1536 + 1536 + 1),
  },
  { ...rankWorkloads.convnet, gradients: 4 * 1_199_882 },
];

/** `apart`: nothing is communicated; `after`: all gradients at once, when backward has ended; `during`: as it is. */
const sides = ["apart", "after", "during"] as const;
type Side = typeof sides[number];

/** Milliseconds of a step, of each round. */
export type Steps = Readonly<Record<Side, readonly number[]>>;

/** Milliseconds: of a step, and how long training waited for communication in it. */
interface Measured {
  readonly step: number;
  readonly waited: number;
}

type Found = Record<string, Record<Side, Measured[]>>;

/** `quick`: to see that it runs; nothing is written. */
export async function overlapBenchmark(p: Programs, mpi: string, quick = false): Promise<void> {
  const about = machine(), extent = quick ? QUICK : FULL;
  if (about.load > 0.5) {
    console.log(`This machine is busy (load ${about.load}): the figures will not say much.`);
  }
  const found: Found = {};
  const host = openHost();
  await withHosts(2, GBIT * 1e9, async (hosts) => {
    for (const workload of compared) {
      const rounds: Record<Side, Measured[]> = { apart: [], after: [], during: [] };
      for (const [side, round] of turns(sides, extent.rounds + 1, quick ? 1 : 0)) {
        const measured = await host.turn(() => measure(p, mpi, hosts, side, workload, extent));
        if (round > 0) rounds[side].push(measured); // the first brings files into memory
      }
      found[workload.title] = rounds;
      console.log(rowOf(workload.title, rounds).join("  "));
    }
  });
  if (!quick) write(p, about, host, found);
}

async function measure(
  { exe }: Programs,
  mpi: string,
  hosts: Hosts,
  side: Side,
  workload: RankWorkload & { gradients: number },
  { steps, warm }: Extent,
): Promise<Measured> {
  if (side === "apart") {
    const alone = (core: number) =>
      inFolder(async (folder) => {
        const [program, ...args] = [...on(core), exe, ...trainArguments(workload, steps, folder)];
        await run(program, args);
        return stepsIn(folder);
      });
    const runs = await Promise.all([alone(0), alone(1)]);
    return { step: 1000 * stepBeside(runs, warm), waited: 0 };
  }
  const before = hosts.sent();
  const { done, waited } = await inFolder(async (folder) => {
    await together(exe, mpi, hosts, folder, side, workload, steps);
    return { done: stepsIn(folder), waited: waitedIn(folder, warm) };
  });
  const crossed = hosts.sent() - before;
  if (crossed < steps * workload.gradients) {
    throw new Error(
      `${crossed} bytes crossed the cable in ${steps} steps with ${workload.gradients} bytes of gradients: ranks found ` +
        "another way to each other, and the figures would say nothing.",
    );
  }
  return { step: 1000 * stepBeside([done], warm), waited: 1000 * waited };
}

/** A rank on each host. */
async function together(
  exe: string,
  mpi: string,
  { enter, addresses, cards }: Hosts,
  folder: string,
  side: Side,
  workload: RankWorkload,
  steps: number,
): Promise<void> {
  const listener = Deno.listen({ port: 0 }); // free here, and so in an empty namespace
  const { port } = listener.addr as Deno.NetAddr;
  listener.close();
  const secret = crypto.randomUUID() + crypto.randomUUID();
  const words = [...trainArguments(workload, steps, folder), ...side === "after" ? ["--bucket-mb=4096"] : []];
  await Promise.all(addresses.map((_, node) => {
    const launch = ["launch", "-n", "1", "--nodes", "2", "--node-rank", `${node}`];
    const [program, ...args] = [
      ...enter[node],
      ...on(node),
      exe,
      ...launch,
      "--rendezvous",
      `${addresses[0]}:${port}`,
      "--",
    ];
    return run(program, [...args, ...words], {
      HPCTRAIN_MPI: join(mpi, "lib/libmpi.so.12"),
      HPCTRAIN_SECRET: secret,
      // Both have one host name: without these the ranks would meet in shared memory.
      ...{
        FI_PROVIDER: "tcp",
        FI_TCP_IFACE: cards[node],
        MPIR_CVAR_CH4_NETMOD: "ofi",
        MPIR_CVAR_NOLOCAL: "1",
      },
    });
  }));
}

/** Communication adds time when it waits for backward to end; overlapping removes this share of it. */
export const hiddenShares = ({ apart, after, during }: Steps): number[] =>
  apart.map((alone, i) => (after[i] - during[i]) / (after[i] - alone));

function rowOf(title: string, rounds: Record<Side, Measured[]>): string[] {
  const steps = (side: Side) => rounds[side].map(({ step }) => step);
  const [apart, after, during] = sides.map(steps);
  const shares = hiddenShares({ apart, after, during });
  const ms = (all: readonly number[]) => `${median(all).toFixed(0)} ms`;
  const percent = (share: number) => `${(100 * share).toFixed(0)}%`;
  const waited = (side: Side) => ms(rounds[side].map(({ waited }) => waited));
  return [
    title,
    ...[apart, after, during].map(ms),
    ms(after.map((step, i) => step - apart[i])),
    `${percent(median(shares))} (${percent(Math.min(...shares))} to ${percent(Math.max(...shares))})`,
    `${waited("after")}, ${waited("during")}`,
  ];
}

function write(p: Programs, about: ReturnType<typeof machine>, host: Host, found: Found): void {
  const versions = versionsOf(p), date = new Date().toISOString().slice(0, 10);
  const { rounds, steps, warm } = FULL;
  writeResults("overlap", {
    command: "./scripts/bench overlap",
    date,
    machine: about,
    versions,
    taken: host.taken,
    gbit: GBIT,
    found,
  });
  writePage(
    "overlap",
    [
      "# Communication behind backward",
      `\`./scripts/bench overlap\` on ${date}: ${about.cpu}, ${about.cores} cores, load ${about.load} before; libtorch ` +
      `${versions.libtorch}. Two ranks of one thread, each in a network namespace and on a core of its own, with ${GBIT} ` +
      `Gbit/s each between them (veth through a bridge, tc tbf), and MPICH by TCP. A step, medians of ${rounds} rounds in which all take turns, ` +
      `${
        steps - warm
      } warm steps each: of two runs that send each other nothing, with one all-reduce when backward has ` +
      "ended (--bucket-mb 4096), and with buckets during backward, as it is by default. Hidden is the share of what " +
      "communication adds to a step that overlap takes away again (least to most). Waited is what rank 0 itself counts in a step as waiting for communication, for a " +
      "slower rank too. What TCP computes is done on the " +
      `same cores. ${host.said()}`,
      table(
        [
          "A step",
          "No communication",
          "After backward",
          "During backward",
          "Communication",
          "Hidden",
          "Waited: after, during",
        ],
        Object.entries(found).map(([title, rounds]) => rowOf(title, rounds)),
      ),
    ].join("\n\n"),
  );
}
