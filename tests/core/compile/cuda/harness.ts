// Runs the text of CUDA C on this machine: g++ compiles it with host.h, and memory lies between pages that nobody may
// touch.
import { fromFileUrl, join } from "paths";
import { type CudaText, printCuda } from "../../../../core/compile/cuda/code.ts";
import { ELEMENT_BYTES, type GroupKernel } from "../../../../core/compile/kernel.ts";
import { copied, type Data, guarded } from "../x86/harness.ts";
import { type GroupRun, groupRuns, judgeGroup } from "../x86/fuzz.ts";

const SCRIPT = fromFileUrl(new URL("host.sh", import.meta.url));

/** Null where texts can be compiled. */
export const whyNoHost: string | null = (() => {
  if (Deno.build.arch !== "x86_64") return "fibers of host.h are for x86_64 only";
  try {
    new Deno.Command("g++", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync();
    return null;
  } catch {
    return "there is no g++";
  }
})();

/** A test that is skipped where texts can't be compiled, with the reason in its name. */
export function onHost(name: string, fn: () => void): void {
  const why = whyNoHost;
  Deno.test({
    name: `${name}${why === null ? "" : ` (skipped: ${why})`}`,
    ...{ ignore: why !== null, fn },
    sanitizeResources: false, // the library stays open
  });
}

type Function = (given: Uint8Array<ArrayBuffer>, blocks: number, threads: number) => void;

/** The functions of a text by name. */
export function compiled(text: string, names: readonly string[]): Record<string, Function> {
  const folder = Deno.makeTempDirSync({ prefix: "cuda-text-" });
  try {
    const source = join(folder, "text.cu"), library = join(folder, "text.so");
    Deno.writeTextFileSync(source, text);
    const { success, stderr } = new Deno.Command("sh", { args: [SCRIPT, source, library] }).outputSync();
    if (!success) throw new Error(new TextDecoder().decode(stderr).slice(0, 4000));
    const of = { parameters: ["buffer", "u32", "u32"], result: "void" } as const;
    const symbols = Object.fromEntries(names.map((name) => [name, { name: `host_${name}`, ...of }]));
    return Deno.dlopen(library, symbols).symbols as unknown as Record<string, Function>;
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/** Its arguments are addresses. */
export function launched(fn: Function, addresses: readonly bigint[], blocks: number, threads: number): void {
  const values = new BigUint64Array(new ArrayBuffer(8 * addresses.length));
  values.set(addresses);
  const first = Deno.UnsafePointer.value(Deno.UnsafePointer.of(values));
  const pointers = new BigUint64Array(new ArrayBuffer(8 * addresses.length));
  addresses.forEach((_, i) => pointers[i] = first + BigInt(8 * i));
  fn(new Uint8Array(pointers.buffer), blocks, threads);
}

export interface HostRun {
  readonly kernels: readonly GroupKernel[];
  readonly slots: readonly Data[];
  readonly atEnd: boolean;
  /** The element of each slot's data that is its first one, where that is not 0. */
  readonly begins?: readonly number[];
}

export const wholeText = ({ prelude, functions }: CudaText): string =>
  [prelude, ...functions.map(({ text }) => text)].join("\n");

/** What the slots hold after each run: all runs are one text. */
export function runOnHost(runs: readonly HostRun[]): (run: HostRun) => Data[] {
  const begins = ({ slots, atEnd }: HostRun) => (slot: number) => !atEnd || slots[slot].byteLength % 16 === 0;
  // The kernels of each run are printed with all, so that equal groups share a function.
  const texts = runs.map((run) => printCuda(run.kernels, begins(run)));
  const renamed = texts.map(({ functions }, i) => {
    const own = functions.map(({ text }) => text).join("\n");
    return functions.reduce((all, { name }) => all.replace(` ${name}(`, ` ${name}_run${i}(`), own);
  });
  const [{ prelude }] = texts;
  const names = texts.flatMap(({ functions }, i) => functions.map(({ name }) => `${name}_run${i}`));
  const functions = compiled([prelude, ...renamed].join("\n"), names);
  return (run) => {
    const at = runs.indexOf(run), { launches, scratch } = texts[at], { slots, atEnd } = run;
    const memory = slots.map((data, i) => guarded(i, data, atEnd));
    // What scratch memory holds at first must not matter.
    const room = guarded(slots.length, new Float32Array(scratch).fill(NaN), true);
    for (const { function: name, blocks, threads, arguments: given, scratch } of launches.flat()) {
      const addresses = given.map(({ slot, offset, kind }) =>
        memory[slot].address + BigInt(((run.begins?.[slot] ?? 0) + offset) * ELEMENT_BYTES[kind])
      );
      if (scratch) addresses.push(room.address);
      launched(functions[`${name}_run${at}`], addresses, blocks, threads);
    }
    return slots.map((data, i) => copied(data, memory[i]));
  };
}

/** So many random groups are one text. */
const TOGETHER = 50;

/** What is wrong with the groups of these seeds; every fourth is large. */
export function fuzzOnHost(first: number, count: number): string[] {
  const wrong: string[] = [];
  for (let begin = first; begin < first + count; begin += TOGETHER) {
    const seeds = Array.from({ length: Math.min(TOGETHER, first + count - begin) }, (_, i) => begin + i);
    const cases = seeds.map((seed) => ({ seed, runs: groupRuns(seed, seed % 4 === 0) }));
    const asRun = ({ kernel, slots, atEnd }: GroupRun): HostRun => ({ kernels: [kernel], slots, atEnd });
    const known = new Map(
      cases.flatMap(({ runs: { full, lean } }) => [full, lean].map((one) => [one, asRun(one)])),
    );
    const run = runOnHost([...known.values()]);
    for (const { seed, runs } of cases) {
      const problem = judgeGroup(seed, runs, (one) => run(known.get(one)!));
      if (problem) wrong.push(problem);
    }
  }
  return wrong;
}
