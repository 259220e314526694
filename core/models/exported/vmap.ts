// Runs torch.vmap in forward. A graph holds its beginning, its body and its end, as PyTorch ran them. They
// become one step, so that no block ends and no loss begins inside, and libtorch's vmap level is restored
// whatever happens.
import { hasVmap, VmapLevel } from "../../../ffi/vmap.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { type GraphFrame, UnfitOperator } from "./operators.ts";
import type { GraphNode, GraphValue } from "./graph.ts";
import { freeAfterLastUse, type GraphStep, type GraphSteps, runSteps } from "./steps.ts";

const DEEPEST = 8;

/** These may leave their memory, or differ from PyTorch, when they run for many samples at once. */
const NOT_INSIDE =
  /^(as_strided|lstm|gru|rnn_tanh|rnn_relu|_?native_batch_norm\w*|_batch_norm_\w+|_weight_norm|_fft_\w+)$/;

export class Region {
  readonly steps: GraphStep[] = [];
  /** These slots have a meaning only in here. */
  readonly #inside = new Set<number>();
  readonly #results: number[] = [];
  readonly #level: VmapLevel;
  readonly #size: { readonly slot: number; readonly fixed: number };

  constructor(readonly node: GraphNode, readonly around: Region | null, slotOf: (name: string) => number) {
    const depth = around ? around.level + 1 : 1;
    if (!hasVmap()) throw new UnfitOperator(`torch.vmap is not run by this libtorch: ${DECOMPOSE}`);
    if (depth > DEEPEST) throw new UnfitOperator(`torch.vmap is nested more than ${DEEPEST} times`);
    const [size, randomness] = node.inputs.map(({ value }) => value);
    if (size?.kind === "symbol") this.#size = { slot: slotOf(size.name), fixed: 0 };
    else if (size?.kind === "number") this.#size = { slot: -1, fixed: size.value };
    else throw new UnfitOperator("the number of its samples is no number");
    const how = randomness?.kind === "text" ? randomness.value : "";
    if (how !== "error" && how !== "same") {
      throw new UnfitOperator(
        `torch.vmap with randomness="${how}" is not supported: draw for the whole batch before it, and map over that`,
      );
    }
    this.#level = new VmapLevel(depth, how);
  }

  get level(): number {
    return this.#level.level;
  }

  /** No later step may use these slots. */
  get closed(): ReadonlySet<number> {
    return this.#inside;
  }

  makes(slot: number): void {
    this.#inside.add(slot);
  }

  refuse(name: string, root: number | null): void {
    if (NOT_INSIDE.test(name)) throw new UnfitOperator(`it is not supported inside torch.vmap: ${DECOMPOSE}`);
    if (root !== null && !this.#inside.has(root)) {
      throw new UnfitOperator(
        "inside torch.vmap it writes to what came from outside: write it without the operation in place",
      );
    }
  }

  /** The function sees the mapped tensors. */
  hide(node: GraphNode, from: number, to: number): GraphStep {
    const [, dim] = node.inputs.map(({ value }) => value);
    this.#checkLevel(node.inputs[2]?.value);
    if (this.#inside.has(from)) throw new UnfitOperator("what torch.vmap maps over is made inside of it");
    if (dim?.kind !== "number") throw new UnfitOperator("its dimension is no number");
    const level = this.#level, at = dim.value;
    const run = ({ values }: GraphFrame) => {
      values[to] = level.hide(values[from] as Tensor, at);
    };
    return { node, run, dead: [], uses: [from], defines: [to], writes: -1 };
  }

  show(node: GraphNode, from: number, to: number): GraphStep {
    const dim = node.inputs[3]?.value;
    this.#checkLevel(node.inputs[1]?.value);
    if (dim?.kind !== "number") throw new UnfitOperator("its dimension is no number");
    const level = this.#level, at = dim.value;
    this.#inside.delete(to);
    this.#results.push(to);
    this.around?.makes(to);
    const run = ({ values }: GraphFrame) => {
      values[to] = level.show(values[from] as Tensor, at);
    };
    return { node, run, dead: [], uses: [from], defines: [to], writes: -1 };
  }

  #checkLevel(value: GraphValue | undefined): void {
    if (value?.kind !== "number" || value.value !== this.level) {
      throw new UnfitOperator("it belongs to another torch.vmap than the one that it is in");
    }
  }

  end(plan: Pick<GraphSteps, "kinds" | "roots">, path: string): GraphStep {
    const { steps, node } = this, level = this.#level, size = this.#size;
    const made = new Set(steps.flatMap(({ defines }) => defines));
    const used = steps.flatMap(({ uses }) => uses).filter((slot) => !made.has(slot));
    const numbers = [...made].filter((slot) => plan.kinds[slot] === "number");
    const kept = new Set([...used, ...made].filter((slot) => !this.#inside.has(slot)));
    freeAfterLastUse({ ...plan, steps }, 0, steps.length, kept);
    const run = (frame: GraphFrame) => {
      level.enter(size.slot < 0 ? size.fixed : frame.values[size.slot] as number);
      try {
        runSteps(steps, 0, steps.length, frame, path);
      } finally {
        level.leave();
      }
    };
    return {
      node,
      run,
      dead: [],
      uses: [...new Set(size.slot < 0 ? used : [size.slot, ...used])],
      defines: [...this.#results, ...numbers],
      writes: -1,
    };
  }
}

const DECOMPOSE = "call program.run_decompositions() before torch.export.save, which writes it with others";
