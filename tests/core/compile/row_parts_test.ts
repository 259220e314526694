// A head whose logits are made in parts: on a GPU it has the graph of one whose logits are whole; on a CPU each part goes
// back before the next one.
import { assert, assertEquals } from "@std/assert";
import { gpt } from "../../../core/models/zoo/gpt.ts";
import { createLoss } from "../../../core/models/losses.ts";
import { checkpointed, straight } from "../../../core/train/blocks.ts";
import { Builder } from "../../../core/compile/builder.ts";
import type { Graph } from "../../../core/compile/graph.ts";
import { fuse } from "../../../core/compile/fuse.ts";
import { place } from "../../../core/compile/place.ts";
import { rowPartsOf, withoutRowParts } from "../../../core/compile/row_parts.ts";
import { manualSeed } from "../../../ffi/context.ts";
import { constant } from "../../../ffi/make.ts";
import { lt, randint, where } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { open, settings } from "../train/rig.ts";
import { compared } from "./compiled.ts";

open();

const CONTEXT = 24, VOCABULARY = 65;

interface How {
  readonly cast?: "bf16" | null;
  readonly run?: typeof straight;
  readonly smoothing?: string;
  readonly exact?: boolean;
  readonly joinsParts?: boolean;
  readonly vocabulary?: number;
}

/** The derived graph of a small GPT's step, with the worst difference of its gradients from autograd's. */
function graphOf(tokensAtOnce: number, how: How = {}) {
  const { cast = null, run = straight, smoothing = "0", vocabulary = VOCABULARY, exact, joinsParts = false } =
    how;
  const facts = { task: "language", input: { shape: [CONTEXT], dtype: "i64" }, outputs: vocabulary } as const;
  return scope(() => {
    manualSeed(3n);
    const model = gpt({ vocabulary, context: CONTEXT, layers: 1, heads: 2, embed: 16 });
    const loss = createLoss(settings("--label-smoothing", smoothing).training, facts);
    const input = randint(0, VOCABULARY, [3, CONTEXT], "i64"),
      labels = randint(0, VOCABULARY, [3, CONTEXT], "i64");
    const target = where(lt(labels, constant(5, "i64")), constant(-100, "i64"), labels);
    const pass = { model, loss, cast, onGpu: false, seeds: null, tokensAtOnce };
    const made = compared({
      ...{ input, target, parameters: model.root.namedParameters().map(([, t]) => t), goesBack: true },
      ...{ exact, joinsParts },
      pass: () => run(pass, input, target, null),
    });
    if ("reason" in made) throw new Error(`${made.op}: ${made.reason}`);
    return made;
  });
}

const countOf = ({ nodes }: Graph, op: string) => nodes.filter((node) => node.op === op).length;

/** So many products, sums and greatest numbers. */
const sizeOf = ({ graph }: { graph: Graph }) =>
  ["gemm", "sum", "amax", "slice"].map((op) => countOf(graph, op));

const WAYS: readonly How[] = [{}, { cast: "bf16" }, { smoothing: "0.1" }, { run: checkpointed }];

Deno.test("a head in parts, also a short last one, is joined to a whole one and has autograd's gradients", () => {
  for (const how of WAYS.map((how) => ({ ...how, joinsParts: true }))) {
    const whole = graphOf(0, how);
    for (const tokens of [24, 50]) {
      const parts = graphOf(tokens, how);
      assertEquals(sizeOf(parts), sizeOf(whole), JSON.stringify(how));
      assert(Math.abs(parts.loss - whole.loss) < 1e-6 * whole.loss, `${parts.loss} and ${whole.loss}`);
      assert(parts.worst < (how.cast ? 3e-2 : 1e-5), `${JSON.stringify(how)}: ${parts.worst}`);
    }
  }
});

/** Numbers of f32 that a step keeps at once. */
const memoryOf = ({ graph }: { graph: Graph }) =>
  place(fuse(graph, { exact: graph.exact === true, adds: false }), true).elements;

Deno.test("on a CPU a part goes back before the next one: it takes less memory, with autograd's gradients", () => {
  for (const exact of [false, true]) {
    for (const how of [...WAYS.filter(({ cast }) => !exact || !cast), { vocabulary: 400 }]) {
      const whole = graphOf(0, { ...how, exact });
      for (const tokens of [24, 50]) {
        const parts = graphOf(tokens, { ...how, exact }), said = JSON.stringify({ ...how, exact, tokens });
        assert(parts.worst < (how.cast ? 3e-2 : 1e-5), `${said}: ${parts.worst}`);
        assertEquals(sizeOf(parts)[3] > 0, true, said);
        if (!how.vocabulary || tokens > 24) continue;
        const [own, all] = [parts, whole].map(memoryOf);
        assert(own < 0.8 * all, `${said}: ${own} of ${all}`);
      }
    }
  }
});

/** A loss over the rows 0 to 3 and `from` to 9 of a parameter. */
function lossOf(from: number, part: (b: Builder, rows: number, i: number) => number) {
  const b = new Builder(), x = b.tensor({ from: "parameter", index: 0 }, [9, 2], "f32");
  const sums = [[0, 4], [from, 9]].map(([start, end], i) => part(b, b.slice(x, 0, start, end), i));
  const loss = b.pointwise("add", ...sums.map((sum) => b.reshape(sum, [])));
  const parts = rowPartsOf({ nodes: b.nodes, loss, output: x }).map(({ rows }) => b.shape(rows)[0]);
  return { b, loss, parts, joined: withoutRowParts(b, loss) };
}

const total = (b: Builder, x: number) => b.sum(x, [0, 1]);

Deno.test("sums over parts that follow each other are one, and others stay as they are", () => {
  const square = (b: Builder, x: number) => total(b, b.pointwise("mul", x, x));
  const { b, parts, joined } = lossOf(4, square);
  assertEquals(parts, [4, 5]);
  assertEquals(lossOf(5, square).parts, []); // there is a gap
  assertEquals(lossOf(4, (b, x) => b.pointwise("add", square(b, x), square(b, 0))).parts, []); // all rows for each
  assertEquals(b.shape(joined), []);
  assertEquals(b.nodes.filter((node) => node.op === "mul").map(({ shape }) => shape), [[4, 2], [5, 2], [
    9,
    2,
  ]]);
  for (
    const [from, part] of [
      [5, square], // there is a gap
      [4, (b: Builder, x: number, i: number) => total(b, b.pointwise(i ? "exp" : "sin", x))],
      [4, (b: Builder, x: number) => total(b, b.pointwise("sub", x, b.amax(x, [0])))], // over a part's rows
      [4, (b: Builder, x: number) => b.pointwise("exp", square(b, x))],
      [4, (b: Builder, x: number, i: number) => b.pointwise("mul", square(b, x), b.number(i + 2))],
    ] as const
  ) {
    const { loss, joined } = lossOf(from, part);
    assertEquals(joined, loss, String(part));
  }
});
