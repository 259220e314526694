// Checks of time and memory, each side a process of its own: step times beside PyTorch, gradient checkpointing.
import { cudaName } from "../../ffi/cuda.ts";
import { peakOf } from "../../core/train/throughput.ts";
import { type Contestant, type Round, startContestant, turns } from "../contestant.ts";
import { median } from "../report.ts";
import { type Check, type Context, judged } from "./check.ts";
import { SOURCES } from "./runs.ts";
import { DEEP, DEEP_TOY, fitted, gptFlops, QUICK, type Spec } from "./specs.ts";

const here = new URL(".", import.meta.url).pathname;

export const SIDES = {
  captured: "hpctrain",
  fast: "hpctrain --compile=fast",
  plain: "hpctrain --no-compile",
  eager: "PyTorch eager",
  compile: "torch.compile",
  "reduce-overhead": "torch.compile, reduce-overhead",
} as const;
export type SideName = keyof typeof SIDES;
const OURS: readonly SideName[] = ["captured", "fast", "plain"];

/** A side's first steps. */
interface Beginning {
  /** Seconds from the start of its process until the first step was done, and until it was warm: captured, compiled. */
  readonly first: number;
  readonly warm: number;
  /** Bytes: of the device, or resident on a CPU. */
  readonly memory: number;
  readonly loss: number;
}

/** The sides of a comparison may begin beside each other, and the device tells all that it holds. */
interface SideBeginning extends Omit<Beginning, "memory"> {
  /** Null where others began beside it. */
  readonly memory: number | null;
}

export interface StepTime {
  readonly spec: Spec;
  /** Milliseconds a step. */
  readonly medians: Readonly<Partial<Record<SideName, number>>>;
  readonly beginnings: Readonly<Partial<Record<SideName, SideBeginning>>>;
  readonly missing: Readonly<Partial<Record<SideName, string>>>;
  readonly tokensPerSecond?: number;
  readonly mfu?: number;
}

const memoryOf = (c: Context, { device = 0, peak }: Round) => c.device === "cpu" ? peak : device;

type Command = [program: string, args: string[]];

/** So many steps in all before the first round: three as they are, then one is captured and one replayed. */
const WARM = 5;

async function begin(
  c: Context,
  [program, args]: Command,
  warm = WARM,
): Promise<[Contestant, Beginning]> {
  const began = performance.now(), since = () => (performance.now() - began) / 1000;
  const contestant = await startContestant(program, args);
  await contestant.round(1);
  const first = since();
  const last = await contestant.round(warm - 1);
  return [contestant, { first, warm: since(), memory: memoryOf(c, last), loss: last.loss }];
}

const flagOf = (c: Context) => c.device === "cpu" ? "cpu" : "cuda";

const ours = (c: Context, spec: Spec, deterministic = false): Command => [
  Deno.execPath(),
  [...SOURCES, `${here}worker.ts`, JSON.stringify(spec), flagOf(c), deterministic ? "deterministic" : ""],
];

function commandOf(c: Context, spec: Spec, side: SideName): Command | string {
  if ((side === "captured" || side === "fast") && c.device === "cpu") return "not on a CPU";
  if (side === "fast" && c.quick && !["mlp", "gpt"].includes(spec.model)) {
    return "tried with the MLP and the GPT";
  }
  if (side === "plain" && c.quick && c.device !== "cpu" && spec.model !== "mlp") return "tried with the MLP";
  if (OURS.includes(side)) {
    return ours(c, side === "plain" ? spec : { ...spec, way: side as "captured" | "fast" });
  }
  if (c.python === null) return "no Python whose torch computes here";
  if (c.quick && spec.model !== "mlp") return "tried in one process with the MLP";
  if (c.quick && side === "reduce-overhead") return "tried as torch.compile";
  const also = c.quick && side === "eager" ? QUICK.filter(({ model }) => model !== spec.model) : [];
  return [c.python, [`${here}peer.py`, JSON.stringify({ ...spec, also }), flagOf(c), side]];
}

/** The last error that a failure tells is its reason. */
function reason(error: unknown): string {
  // deno-lint-ignore no-control-regex -- colours of a terminal
  const text = String(error).replaceAll(/\x1b\[[0-9;]*m/g, "").trim();
  const said = [...text.matchAll(/Error: ([^\n]+)/g)].at(-1)?.[1] ?? text.split("\n").at(-1)!;
  return / ended:$/.test(said) ? "its process ended and said nothing" : said.slice(0, 160);
}

/** The sides of one comparison, warm. Why a side can't run is in `missing`. */
interface Begun {
  readonly running: Map<SideName, Contestant>;
  readonly beginnings: Partial<Record<SideName, SideBeginning>>;
  readonly missing: Partial<Record<SideName, string>>;
}

/** Each side in turn, or all at once. Ours must run. */
async function beginAll(c: Context, spec: Spec): Promise<Begun> {
  const begun: Begun = { running: new Map(), beginnings: {}, missing: {} };
  let broken: unknown = null;
  const beginSide = async (side: SideName) => {
    const command = commandOf(c, spec, side);
    if (typeof command === "string") {
      begun.missing[side] = command;
      return;
    }
    try {
      const [contestant, beginning] = await begin(c, command);
      begun.running.set(side, contestant);
      begun.beginnings[side] = c.jobs > 1 ? { ...beginning, memory: null } : beginning;
    } catch (error) {
      if (OURS.includes(side) && side !== "fast") broken ??= error;
      begun.missing[side] = reason(error);
    }
  };
  const sides = Object.keys(SIDES) as SideName[];
  if (c.jobs > 1) await Promise.all(sides.map(beginSide));
  else for (const side of sides) await beginSide(side);
  if (broken === null) return begun;
  await endAll(begun);
  throw broken;
}

const endAll = async ({ running }: Begun): Promise<void> => {
  for (const contestant of running.values()) await contestant.end().catch(() => {});
};

async function compare(c: Context, spec: Spec, begun: Begun): Promise<StepTime> {
  const milliseconds: Partial<Record<SideName, number[]>> = {};
  const { running, beginnings, missing } = begun;
  try {
    if (!c.quick) { for (const contestant of running.values()) await contestant.round(spec.steps); } // not counted
    for (const [[side, contestant]] of turns(running, c.quick ? 1 : 5)) {
      const { seconds } = await contestant.round(spec.steps);
      (milliseconds[side] ??= []).push(seconds / spec.steps * 1e3);
    }
    const medians = Object.fromEntries(Object.entries(milliseconds).map(([side, ms]) => [side, median(ms)]));
    return { spec, medians, beginnings, missing, ...tokens(c, spec, medians) };
  } finally { // a process left behind would keep its memory of the device
    await endAll(begun);
  }
}

function tokens(c: Context, spec: Spec, medians: StepTime["medians"]) {
  const ms = Math.min(...OURS.flatMap((side) => medians[side] ?? []));
  if (spec.model !== "gpt" || !Number.isFinite(ms)) return {};
  const tokensPerSecond = spec.batch * spec.size / ms * 1e3;
  const peak = c.device === "cpu" ? null : peakOf(cudaName(), "bf16");
  return { tokensPerSecond, ...(peak && { mfu: tokensPerSecond * gptFlops(spec) / (peak * 1e12) }) };
}

const nameOf = ({ title }: Spec): string => `step time: ${title}`;

/** Large models have a turn of their own, where the device is not of the largest. */
const ROOMY_GIB = 120;
const fills = ({ model }: Spec): boolean => model === "resnet50" || model === "unet";

/** With `--jobs` the sides of many comparisons begin together, and no round is timed before all are warm. */
function openBeginnings(specs: readonly Spec[], gib: number): (c: Context, spec: Spec) => Promise<Begun> {
  const begun = new Map<Spec, Promise<Begun>>();
  return async (c, spec) => {
    if (c.jobs === 1) return await beginAll(c, spec);
    if (!begun.has(spec)) {
      const together = specs.filter((one) =>
        c.left().includes(nameOf(one)) && (gib >= ROOMY_GIB || fills(one) === fills(spec))
      );
      for (const one of together) begun.set(one, beginAll(c, one));
    }
    await Promise.allSettled(begun.values());
    return await begun.get(spec)!;
  };
}

export const gibOf = (bytes: number | null): string[] =>
  bytes === null ? [] : [`${(bytes / 2 ** 30).toFixed(2)} GiB`];

const stepTime = (spec: Spec, begin: ReturnType<typeof openBeginnings>): Check => ({
  name: nameOf(spec),
  alone: true,
  ahead: (c) => void begin(c, spec).catch(() => {}), // its turn tells
  async run(c) {
    const found = await compare(c, spec, await begin(c, spec));
    const { medians, beginnings, missing, tokensPerSecond, mfu } = found;
    const words = (Object.keys(beginnings) as SideName[]).map((side) => {
      const { first, warm, memory } = beginnings[side]!;
      const beginning = memory === null
        ? []
        : [`first step after ${first.toFixed(1)} s`, `warm after ${warm.toFixed(1)} s`];
      return [`${SIDES[side]} ${medians[side]!.toFixed(3)} ms`, ...gibOf(memory), ...beginning].join(", ");
    });
    if (tokensPerSecond) words.push(`${(tokensPerSecond / 1e3).toFixed(0)}k tokens/s`);
    if (mfu) words.push(`MFU ${(100 * mfu).toFixed(1)}%`);
    const left = (Object.keys(missing) as SideName[]).map((side) => `${SIDES[side]}: ${missing[side]}`);
    // Ours are trained with the same batch from the same weights.
    const losses = OURS.flatMap((side) => beginnings[side]?.loss ?? []), last = losses.at(-1)!;
    return {
      ok: losses.every((loss) => Number.isFinite(loss) && Math.abs(loss - last) <= 1e-2 * Math.abs(last)),
      figure: [...words, ...left].join("; "),
      detail: found,
    };
  },
});

const checkpointing: Check = {
  name: "gradient checkpointing: the same losses in less memory",
  alone: true,
  async run(c) {
    const spec = c.quick ? DEEP_TOY : DEEP;
    const found: Beginning[] = [];
    for (const checkpointing of [false, true]) {
      const [contestant, beginning] = await begin(c, ours(c, { ...spec, checkpointing }, true), 2);
      await contestant.end();
      found.push(beginning);
    }
    const [without, with_] = found;
    const bytes = [without.memory, with_.memory];
    const same = without.loss === with_.loss, less = bytes[1] > 0 && bytes[1] < bytes[0];
    const [a, b] = bytes.map((bytes) => (bytes / 2 ** 20).toFixed(0));
    return {
      // A toy's activations hardly show in what is resident on a CPU.
      ok: same && (c.device === "cpu" ? judged(c, less) : less),
      figure: `loss ${without.loss}${same ? " twice" : ` and ${with_.loss}`}; ${a} MiB, then ${b} MiB`,
    };
  },
};

/** `gib`: the device's memory. */
export function speed(quick: boolean, gib: number): readonly Check[] {
  const specs = quick ? QUICK : fitted(gib), begin = openBeginnings(specs, gib);
  return [checkpointing, ...specs.map((spec) => stepTime(spec, begin))];
}
