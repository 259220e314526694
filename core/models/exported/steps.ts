// Runs the steps of a graph: each frees what it is the last to use, and an error names the line of the user's
// Python.
import { NativeError, UseAfterFree } from "../../../ffi/errors.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { damagedCheckpoint } from "../../base/file_bytes.ts";
import { UserError } from "../../base/errors.ts";
import { type GraphFrame, UnfitOperator } from "./operators.ts";
import { type GraphNode, sourceLineOf } from "./graph.ts";

export type SlotKind = "parameter" | "buffer" | "constant" | "input" | "made" | "number";

export interface GraphStep {
  readonly node: GraphNode;
  run(frame: GraphFrame): void;
  /** No later step uses these slots. */
  dead: readonly number[];
  readonly uses: readonly number[];
  readonly defines: readonly number[];
  /** This slot came with its memory; -1 for a step that makes something new. */
  readonly writes: number;
}

export interface GraphSteps {
  readonly steps: GraphStep[];
  readonly kinds: readonly SlotKind[];
  /** Each slot shares the memory of its root. */
  readonly roots: readonly number[];
}

/** `kept` are slots that are wanted after the steps from..to. */
export function freeAfterLastUse(
  plan: GraphSteps,
  from: number,
  to: number,
  kept: ReadonlySet<number>,
): void {
  const seen = new Set<number>(kept);
  for (let i = to - 1; i >= from; i--) {
    const step = plan.steps[i];
    const dead: number[] = [];
    for (const slot of new Set([...step.uses, ...step.defines])) {
      if (seen.has(slot)) continue;
      seen.add(slot);
      if (plan.kinds[slot] === "made" && owned(plan, slot)) dead.push(slot);
    }
    step.dead = dead;
  }
}

/** A buffer that was written to under another name is still the buffer. */
function owned({ kinds, roots }: GraphSteps, slot: number): boolean {
  const root = kinds[roots[slot]];
  return root === "made" || root === "input" || root === "parameter";
}

export function runSteps(
  steps: readonly GraphStep[],
  from: number,
  to: number,
  frame: GraphFrame,
  path: string,
): void {
  const { values } = frame;
  for (let i = from; i < to; i++) {
    const step = steps[i];
    try {
      step.run(frame);
    } catch (error) {
      throw withNode(error, step.node, path);
    }
    const { dead } = step;
    for (let k = 0; k < dead.length; k++) (values[dead[k]] as Tensor | undefined)?.free?.();
  }
}

function withNode(error: unknown, node: GraphNode, path: string): unknown {
  const place = sourceLineOf(node);
  // No file that PyTorch wrote causes this: a number where a tensor belongs, a value that no step has made.
  const odd = error instanceof UnfitOperator || error instanceof TypeError || error instanceof RangeError ||
    error instanceof UseAfterFree;
  if (odd) {
    const where = `${node.target}${place === "" ? "" : ` (${place})`}`;
    return Object.assign(
      damagedCheckpoint(path, `holds a step that can't be run, ${where}: ${error.message}`),
      {
        cause: error,
      },
    );
  }
  if (!(error instanceof NativeError) || error.outOfMemory) return error;
  return new UserError(
    "usage",
    `${path}: ${error.message}${
      place === "" ? "" : ` (${place})`
    }. The graph was exported for other inputs than ` +
      "these: compare them with `hpctrain inspect`, or export it again with dynamic_shapes.",
    { cause: error },
  );
}
