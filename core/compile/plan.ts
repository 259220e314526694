// A plan that runs: machine code and calls of libtorch's ops in turn, on memory that is given once.
import { loadCode, type MachineCode } from "../../ffi/machine_code.ts";
import { timing } from "../../ffi/profile.ts";
import type { Device, Tensor } from "../../ffi/tensor.ts";
import { formatBytes } from "../base/format.ts";
import { NoBlas } from "./products.ts";
import { alignedIn, openCuda } from "./cuda/code.ts";
import type { HalfWeights } from "./cuda/halves.ts";
import { type CutPlace, type GradientCut, gradientsFirst, placesOf } from "./cuts.ts";
import { fuse } from "./fuse.ts";
import { type Graph, isHalf } from "./graph.ts";
import type { Isa } from "../../ffi/machine.ts";
import type { Kernel } from "./kernel.ts";
import { place, type Placed } from "./place.ts";
import { partNames } from "./program.ts";
import { chainOn } from "./proven.ts";
import { convolutionSumsOn } from "./proven_convolutions.ts";
import { Workspace } from "./workspace.ts";
import { type CodeSegment, type Done, type PlanMemory, PlanRunner, type PlanStep } from "./runner.ts";
import { printFunctions } from "./x86/print.ts";

interface PlanOptions {
  readonly exact: boolean;
  readonly adds: boolean;
  /** Where the plan runs: a CPU's vector instructions, or a GPU. */
  readonly isa: Isa | "cuda";
  readonly threads: number;
  readonly recomputes?: boolean;
  /** From the last block to the first; absent where nobody waits for gradients. */
  readonly cuts?: readonly GradientCut[];
}

/** Why there is no plan. */
export interface NoPlan {
  /**
   * `order`: libtorch's order of this op is not known. `memory` for code, `workspace` for values, `symbol`: what the machine
   * lacks. `compiler`: there is none for a GPU.
   */
  readonly lacks: "order" | "memory" | "room" | "symbol" | "compiler";
  readonly name: string;
}

export interface CompiledPlan {
  readonly placed: Placed;
  readonly kernels: number;
  readonly calls: number;
  readonly codeBytes: number;
  readonly milliseconds: number;
  /** `cell` is where the loss goes. `done` is told of each cut but the last, as soon as its gradients are whole. */
  run(input: Tensor, target: Tensor, weight: Tensor | null, cell: number, done?: Done | null): void;
  free(): void;
}

export function makePlan(graph: Graph, memory: PlanMemory, options: PlanOptions): CompiledPlan | NoPlan {
  const began = performance.now();
  let placed: Placed, cuts: readonly CutPlace[];
  try {
    const { exact, isa, threads } = options, libraryProducts = isa === "cuda";
    const known = exact && isa !== "cuda"
      ? { chainOf: chainOn(isa, threads), convolutionSums: convolutionSumsOn(isa, threads) }
      : {};
    const halves = libraryProducts ? halvesOf(memory) : undefined;
    const program = gradientsFirst(fuse(graph, { ...options, ...known, libraryProducts, halves }));
    placed = place(program, !libraryProducts);
    cuts = placesOf(program, options.cuts ?? []);
  } catch (thrown) {
    if (!(thrown instanceof NoBlas)) throw thrown;
    return { lacks: "order", name: thrown.message };
  }
  const { parts } = placed;
  const workspace = memory.workspace ?? new Workspace(memory.flat.device), { device } = workspace;
  if (!workspace.holds(placed.elements)) return { lacks: "room", name: formatBytes(4 * placed.elements) };
  const whole = stepsOf(placed, cuts, options, device);
  if ("lacks" in whole) return whole;
  const arena = workspace.take(placed.elements);
  const runner = new PlanRunner(placed, memory, arena, whole.steps, whole.at);
  let timed: PlanRunner | null = null;
  const timedOr = (): PlanRunner => {
    if (timed !== null) return timed;
    const separate = stepsOf(placed, cuts, options, device, true);
    return timed = "lacks" in separate
      ? runner
      : new PlanRunner(placed, memory, arena, separate.steps, separate.at);
  };
  return {
    placed,
    kernels: parts.filter(({ kernel }) => kernel !== "call").length,
    calls: parts.filter(({ kernel }) => kernel === "call").length,
    codeBytes: whole.codeBytes,
    milliseconds: performance.now() - began,
    run: (input, target, weight, cell, done = null) =>
      (timing.observer === null ? runner : timedOr()).run(input, target, weight, cell, done),
    free() {
      for (const one of new Set([runner, timed])) one?.free();
      workspace.leave(arena);
    },
  };
}

function halvesOf({ starts, flat, output: { dtype } }: PlanMemory): HalfWeights {
  return { starts, elements: flat.numel, output: isHalf(dtype) ? dtype : undefined };
}

interface Steps {
  readonly steps: readonly PlanStep[];
  /** The step of each part. */
  readonly at: readonly number[];
  readonly codeBytes: number;
}

/** `separate`: code of its own for each kernel, but for some of a kind that follow each other: to time them. */
function stepsOf(
  { parts, slots }: Placed,
  cuts: readonly CutPlace[],
  options: PlanOptions,
  device: Device,
  separate = false,
): Steps | NoPlan {
  const steps: (Exclude<PlanStep, CodeSegment> | Omit<CodeSegment, "code">)[] = [], at: number[] = [];
  const onGpu = options.isa === "cuda" ? openCuda(parts, slots.length, alignedIn(slots), device) : null;
  if (onGpu && "refused" in onGpu) return { lacks: onGpu.refused, name: onGpu.why };
  const functions: Kernel[][] = [];
  let kernels: Kernel[] = [], name = "";
  const close = () => {
    if (kernels.length === 0) return;
    steps.push({ name, entry: functions.push(kernels) - 1 });
    kernels = [];
  };
  for (const [i, part] of parts.entries()) {
    const ends = i < parts.length - 1 ? cuts.filter((cut) => cut.part === i) : [];
    const own = separate ? partNames(part).join(" ") : "compiled";
    if (part.kernel === "call" || own !== name) {
      close();
      name = own;
    }
    if (part.kernel !== "call") kernels.push(part), at.push(steps.length);
    if (part.kernel !== "call" && ends.length === 0) continue;
    close();
    if (part.kernel === "call") at.push(steps.push(part) - 1);
    steps.push(...ends.slice(-1));
  }
  close();
  const codes: MachineCode[] = [];
  let codeBytes = onGpu?.bytes ?? 0;
  if (onGpu) codes.push(...functions.map((kernels) => onGpu.code(kernels)));
  else if (functions.length > 0) {
    const printed = printFunctions(functions, options.isa as Isa, slots.length, options.threads);
    const code = loadCode(printed);
    if ("refused" in code) return { lacks: code.refused, name: code.name };
    codeBytes = printed.bytes.length;
    codes.push(code);
  }
  const loaded = steps.map((step): PlanStep => {
    if (!("entry" in step)) return step;
    return onGpu ? { ...step, code: codes[step.entry], entry: 0 } : { ...step, code: codes[0] };
  });
  return { steps: loaded, at, codeBytes };
}
