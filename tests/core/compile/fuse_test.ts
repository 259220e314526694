// What a plan computes is what its graph says, whatever was joined, moved and left out.
import { assert, assertEquals } from "@std/assert";
import { count } from "../../../core/compile/access.ts";
import { fuse } from "../../../core/compile/fuse.ts";
import type { Home, Program } from "../../../core/compile/program.ts";
import type { Graph, Kind, Node, Ref } from "../../../core/compile/graph.ts";
import { simplify } from "../../../core/compile/simplify.ts";
import { Builder, refsIn } from "../../../core/compile/builder.ts";
import { derive } from "../../../core/compile/derive.ts";
import { savingLess } from "../../../core/compile/saved_values.ts";
import { place } from "../../../core/compile/place.ts";
import { evaluate, run } from "./reference.ts";

/** Numbers that are the same in each run. */
function numbers(seed: number): () => number {
  let state = seed * 2654435761 >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

class Graphs {
  readonly nodes: Node[] = [];
  add(node: Node): Ref {
    return this.nodes.push(node) - 1;
  }
  shape(ref: Ref): readonly number[] {
    return this.nodes[ref].shape;
  }
  tensor(from: "input" | "target" | "weight", shape: readonly number[], kind: Kind = "f32"): Ref {
    return this.add({ op: "tensor", origin: { from }, shape, kind });
  }
  parameter(index: number, shape: readonly number[]): Ref {
    return this.add({ op: "tensor", origin: { from: "parameter", index }, shape, kind: "f32" });
  }
  number(value: number): Ref {
    return this.add({ op: "number", value, shape: [], kind: "f32" });
  }
  op(op: string, ...args: Ref[]): Ref {
    const rank = Math.max(...args.map((arg) => this.shape(arg).length));
    const shape = Array.from(
      { length: rank },
      (_, i) => Math.max(...args.map((arg) => this.shape(arg)[i - rank + this.shape(arg).length] ?? 1)),
    );
    const truth = ["le", "gt", "lt", "eq"].includes(op);
    return this.add({ op, args, shape, kind: truth ? "bool" : "f32" } as Node);
  }
  sum(x: Ref, dims: readonly number[], op: "sum" | "amax" = "sum"): Ref {
    const shape = this.shape(x).map((size, i) => dims.includes(i) ? 1 : size);
    return this.add({ op, args: [x], dims, shape, kind: "f32" });
  }
  gemm(a: Ref, b: Ref, transposeA = false, transposeB = false): Ref {
    const [x, y] = [this.shape(a), this.shape(b)];
    const shape = [...x.slice(0, -2), x.at(transposeA ? -1 : -2)!, y.at(transposeB ? -2 : -1)!];
    return this.add({ op: "gemm", args: [a, b], transposeA, transposeB, shape, kind: "f32" });
  }
  view(op: "reshape" | "expand", x: Ref, shape: readonly number[]): Ref {
    return this.add({ op, args: [x], shape, kind: this.nodes[x].kind });
  }
  permute(x: Ref, dims: readonly number[]): Ref {
    return this.add({
      op: "permute",
      args: [x],
      dims,
      shape: dims.map((dim) => this.shape(x)[dim]),
      kind: "f32",
    });
  }
  graph(output: Ref, loss: Ref, gradients: (Ref | null)[]): Graph {
    return { nodes: this.nodes, output, loss, gradients, effects: [] } as Graph;
  }
}

/** A step of an MLP with ReLU and the mean of squares, as it is recorded and derived. */
function mlp(batch: number, widths: readonly number[]): Graph {
  const g = new Graphs();
  const x = g.tensor("input", [batch, widths[0]]), t = g.tensor("target", [batch, widths.at(-1)!]);
  const weight = g.tensor("weight", []), zero = g.number(0);
  const layers = widths.slice(1).map((out, i) => ({
    w: g.parameter(2 * i, [out, widths[i]]),
    b: g.parameter(2 * i + 1, [out]),
  }));
  const hidden = [x];
  layers.forEach(({ w, b }, i) => {
    const z = g.op("add", g.gemm(hidden.at(-1)!, w, false, true), b);
    hidden.push(i === layers.length - 1 ? z : g.op("where", g.op("le", z, zero), zero, z));
  });
  const output = hidden.at(-1)!, n = count(g.shape(output));
  const difference = g.op("sub", output, t);
  const squares = g.sum(g.op("mul", difference, difference), [0, 1]);
  const loss = g.view("reshape", g.op("div", squares, g.number(n)), []);
  let back = g.op("mul", g.op("mul", g.number(2 / n), difference), weight);
  const gradients: Ref[] = [];
  for (let i = layers.length - 1; i >= 0; i--) {
    gradients[2 * i + 1] = g.view("reshape", g.sum(back, [0]), [widths[i + 1]]);
    gradients[2 * i] = g.gemm(back, hidden[i], true, false);
    if (i === 0) break;
    const before = g.gemm(back, layers[i].w);
    back = g.op("where", g.op("le", hidden[i], zero), zero, before);
  }
  return g.graph(output, loss, gradients);
}

/** Compares what the plan leaves in memory with what the graph's values are. */
function check(graph: Graph, exact: boolean, adds: boolean, seed = 1): Program {
  const random = numbers(seed), tensors = new Map<string, Float32Array>();
  const shapeOf = (home: Home): number => {
    if (home.from === "output") return count(graph.nodes[graph.output].shape);
    if (home.from === "loss") return 1;
    const node = graph.nodes.find((one) =>
      one.op === "tensor" &&
      (home.from === "gradient"
        ? one.origin.from === "parameter" && one.origin.index === home.index
        : JSON.stringify(one.origin) === JSON.stringify(home))
    )!;
    return count(node.shape);
  };
  const given = (home: Home): Float32Array => {
    const key = JSON.stringify(home);
    if (!tensors.has(key)) {
      tensors.set(
        key,
        Float32Array.from({ length: shapeOf(home) }, () => home.from === "gradient" ? 1 : random() - 0.4),
      );
    }
    return tensors.get(key)!;
  };
  const program = fuse(graph, { exact, adds });
  const values = evaluate(graph, given);
  run(place(program), given);
  const same = (home: Home, wanted: Float64Array, more: number) =>
    given(home).forEach((value, i) => {
      const error = Math.abs(value - wanted[i] - more) / (1 + Math.abs(wanted[i]));
      assert(error < 1e-5, `${JSON.stringify(home)}[${i}] is ${value}, not ${wanted[i] + more}`);
    });
  same({ from: "output" }, values[graph.output], 0);
  same({ from: "loss" }, values[graph.loss], 0);
  graph.gradients.forEach((ref, index) => {
    const home = { from: "gradient", index } as const;
    if (ref === null) assertEquals([...given(home)], [...given(home)].map(() => adds ? 1 : 0));
    else same(home, values[ref], adds ? 1 : 0);
  });
  return program;
}

const kindsOf = ({ parts }: Program) => parts.map(({ kernel }) => kernel);

Deno.test("a step of an MLP is one kernel for each product and few groups", () => {
  const fast = check(mlp(8, [7, 32, 32, 1]), false, false);
  assert(kindsOf(fast).filter((kind) => kind === "gemm").length <= 8);
  // Bias and ReLU are in the products; what is left: the loss's sum with its gradient, its mean, and two gates with
  // the bias's sum.
  assert(kindsOf(fast).filter((kind) => kind === "group").length <= 4);
  check(mlp(8, [7, 32, 32, 1]), false, true);
  check(mlp(5, [3, 4, 2]), false, false);
  check(mlp(1, [3, 4, 2]), false, true);
});

Deno.test("sums over rows and over columns of many rows are groups of their own, which threads share", () => {
  const groups = (rows: number): number => {
    const g = new Graphs();
    const x = g.tensor("input", [rows, 20]), w = g.parameter(0, [20]);
    const y = g.op("mul", x, w), sum = g.sum(y, [1]);
    const loss = g.view("reshape", g.sum(sum, [0, 1]), []);
    const graph = g.graph(g.op("div", y, sum), loss, [g.view("reshape", g.sum(x, [0]), [20])]);
    return kindsOf(check(graph, false, false)).length;
  };
  assertEquals(groups(100), groups(10) + 1);
});

Deno.test("an exact plan asks sgemm_ for products, with the bias put under them first", () => {
  const exact = check(mlp(8, [7, 32, 32, 1]), true, false);
  const blas = exact.parts.filter((part) => part.kernel === "blas");
  assertEquals(blas.map(({ beta }) => beta), [1, 1, 1, 0, 0, 0, 0, 0]);
  assertEquals(blas.slice(0, 3).map(({ transA, transB, m, n }) => [transA, transB, m, n]), [
    [true, false, 32, 8],
    [true, false, 32, 8],
    [true, false, 8, 1],
  ]);
  check(mlp(8, [7, 32, 32, 1]), true, true);
  check(mlp(3, [2, 1, 4]), true, false);
});

Deno.test("softmax, layer norm and their gradients are stages over rows", () => {
  const g = new Graphs();
  const x = g.tensor("input", [6, 10]), w = g.parameter(0, [10]), t = g.tensor("target", [6, 10]);
  const mean = g.op("mul", g.sum(x, [1]), g.number(1 / 10));
  const centred = g.op("sub", x, mean);
  const variance = g.op("mul", g.sum(g.op("mul", centred, centred), [1]), g.number(1 / 10));
  const normed = g.op("mul", g.op("mul", centred, g.op("rsqrt", g.op("add", variance, g.number(1e-5)))), w);
  const power = g.op("exp", g.op("sub", normed, g.sum(normed, [1], "amax")));
  const soft = g.op("div", power, g.sum(power, [1]));
  const error = g.op("sub", soft, t);
  const loss = g.view("reshape", g.sum(g.op("mul", error, error), [0, 1]), []);
  const gradient = g.view("reshape", g.sum(g.op("mul", error, normed), [0]), [10]);
  const program = check(g.graph(soft, loss, [gradient]), false, false);
  assertEquals(kindsOf(program), ["group"]);
  const [group] = program.parts;
  assert(group.kernel === "group" && group.stages.length === 5);
});

/** Two layers with `act` between, and the sum of squares; derived. */
function twoLayers(act: (b: Builder, x: Ref) => Ref): Graph {
  const b = new Builder();
  const x = b.tensor({ from: "input" }, [24, 6], "f32");
  const [w, v] = [[40, 6], [5, 40]].map((shape, index) =>
    b.tensor({ from: "parameter", index }, shape, "f32")
  );
  const output = b.gemm(act(b, b.gemm(x, w, false, true)), v, false, true);
  const loss = b.reshape(b.sum(b.pointwise("mul", output, output), [0, 1]), []);
  return derive({ nodes: b.nodes, output, loss, gradients: [], effects: [] }, 2, { weighted: false });
}

Deno.test("backward reads the slope of gelu, and softmax's shares, in place of what they are made of", () => {
  const gelu = (b: Builder, x: Ref) => {
    const cube = b.pointwise("mul", b.pointwise("mul", x, x), x);
    const inner = b.pointwise("add", x, b.pointwise("mul", b.number(0.044715), cube));
    const bent = b.pointwise("tanh", b.pointwise("mul", b.number(0.79788456), inner));
    return b.pointwise("mul", b.pointwise("mul", x, b.number(0.5)), b.pointwise("add", bent, b.number(1)));
  };
  /** Ops whose results a plan has in memory. */
  const inMemory = (graph: Graph): Set<string> => {
    const { nodes } = savingLess(simplify(graph, false));
    return new Set(check(graph, false, false).buffers.map(({ ref }) => ref < 0 ? "" : nodes[ref].op));
  };
  const keptIn = (graph: Graph) => savingLess(graph).nodes.filter(({ saved }) => saved).length;
  assertEquals(keptIn(twoLayers(gelu)), 1);
  assertEquals(inMemory(twoLayers(gelu)).has("tanh"), false);
  // tanh is in memory anyway, for the product behind it.
  assertEquals(keptIn(twoLayers((b, x) => b.pointwise("tanh", x))), 0);
  const softmax = (b: Builder, x: Ref) => {
    const power = b.pointwise("exp", b.pointwise("sub", x, b.amax(x, [1])));
    return b.pointwise("div", power, b.sum(power, [1]));
  };
  assertEquals(inMemory(twoLayers(softmax)).has("exp"), false);
  // Nor are they computed twice: they wait where the shares will lie.
  const forward = check(twoLayers(softmax), false, false).parts.find((part) =>
    part.kernel === "group" && part.stages.length > 2
  )!;
  assert(forward.kernel === "group");
  const ops = forward.stages.flatMap(({ instructions }) => instructions.map(({ op }) => op));
  assertEquals(ops.filter((op) => op === "exp").length, 1);
});

Deno.test("views cost nothing where strides can say them, and are copied where not", () => {
  const g = new Graphs();
  const x = g.tensor("input", [4, 6]), w = g.parameter(0, [6, 4]);
  const heads = g.permute(g.view("reshape", x, [4, 2, 3]), [1, 0, 2]);
  const other = g.permute(g.view("reshape", g.gemm(x, w), [4, 2, 2]), [1, 0, 2]);
  const product = g.gemm(heads, other, true, false); // [2, 3, 2]
  const merged = g.view("reshape", g.permute(product, [1, 0, 2]), [3, 4]);
  const loss = g.view("reshape", g.sum(g.op("tanh", merged), [0, 1]), []);
  const gradient = g.permute(g.gemm(w, w, false, true), [1, 0]);
  check(g.graph(merged, loss, [g.view("reshape", g.gemm(gradient, w), [6, 4])]), false, false);
});

Deno.test("a product that is put among zeros stays there: zeros come first", () => {
  const g = new Graphs();
  const x = g.tensor("input", [4, 6]), w = g.parameter(0, [6, 5]);
  const wide = g.add({ op: "embed", args: [g.gemm(x, w)], dim: 0, start: 1, shape: [6, 5], kind: "f32" });
  const loss = g.view("reshape", g.sum(wide, [0, 1]), []);
  check(g.graph(wide, loss, [g.gemm(x, wide, true, false)].slice(1)), false, false);
});

/** Two samples of 6 tokens and 3 heads of 4 numbers each: products of each head, and their gradients' places. */
function heads(): { g: Graphs; apart: Ref; scores: Ref; joined(t: Ref, dims: readonly number[]): Ref } {
  const g = new Graphs(), x = g.tensor("input", [2, 6, 12]);
  const apart = g.permute(g.view("reshape", x, [2, 6, 3, 4]), [0, 2, 1, 3]);
  const scores = g.gemm(apart, apart, false, true);
  return {
    ...{ g, apart, scores },
    joined: (t, dims) => g.view("reshape", g.permute(t, dims), [2, 6, 12]),
  };
}
const groupsOf = ({ parts }: Program) => parts.filter(({ kernel }) => kernel === "group").length;

Deno.test("products of heads are written among the others' at once, whichever way they are turned", () => {
  const { g, apart, scores, joined } = heads();
  const plain = joined(g.gemm(scores, apart), [0, 2, 1, 3]);
  const turned = joined(g.gemm(apart, scores, true, false), [0, 3, 1, 2]);
  const both = g.add({ op: "cat", args: [turned, plain], dim: 2, shape: [2, 6, 24], kind: "f32" });
  const rows = g.view("reshape", both, [12, 24]), output = g.gemm(rows, g.parameter(0, [24, 5]));
  const made = check(g.graph(output, g.view("reshape", g.sum(output, [0, 1]), []), [null]), false, false);
  assertEquals(groupsOf(made), 2); // the loss, and zeros for the gradient
});

Deno.test("a copy of products stays where its place is still another's", () => {
  const { g, apart, scores, joined } = heads();
  const plain = joined(g.gemm(scores, apart), [0, 2, 1, 3]);
  const wide = g.add({ op: "embed", args: [plain], dim: 1, start: 1, shape: [2, 8, 12], kind: "f32" });
  const output = g.gemm(g.view("reshape", wide, [16, 12]), g.parameter(0, [12, 5]));
  const made = check(g.graph(output, g.view("reshape", g.sum(output, [0, 1]), []), [null]), false, false);
  assertEquals(groupsOf(made), 4); // as above, and zeros around, and what lies among them
});

Deno.test("a call takes the same values behind a sum that is rewritten", () => {
  const g = new Graphs();
  const x = g.tensor("input", [4, 3, 5]), w = g.parameter(0, [4, 3]);
  const sum = g.view("reshape", g.sum(x, [1]), [4, 5]);
  const schema = "mm(Tensor self, Tensor mat2) -> Tensor";
  const values = [{ ref: w }, {
    ref: g.add({ op: "slice", args: [sum], dim: 0, start: 0, end: 3, shape: [3, 5], kind: "f32" }),
  }];
  const call = g.add({ op: "call", schema, values, args: refsIn(values), shape: [4, 5], kind: "f32" });
  const loss = g.view("reshape", g.sum(call, [0, 1]), []);
  for (const node of simplify(g.graph(call, loss, [null]), false).nodes) {
    if (node.op === "call") assertEquals(refsIn(node.values), node.args);
  }
});

/** A random graph: values that broadcast, views, sums, products. */
function anyGraph(seed: number): Graph {
  const random = numbers(seed), g = new Graphs();
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)];
  const sizes = [pick([1, 2, 3]), pick([1, 4, 5]), pick([1, 2, 6])];
  const known: Ref[] = [
    g.tensor("input", sizes),
    g.tensor("target", sizes.slice(1)),
    g.parameter(0, sizes.slice(2)),
    g.parameter(1, sizes),
    g.number(0.5),
  ];
  const goes = (a: Ref, b: Ref) => {
    const [x, y] = [g.shape(a), g.shape(b)];
    for (let i = 1; i <= Math.min(x.length, y.length); i++) {
      if (x.at(-i) !== y.at(-i) && x.at(-i) !== 1 && y.at(-i) !== 1) return false;
    }
    return true;
  };
  for (let i = 0; i < 25; i++) {
    const x = pick(known), shape = g.shape(x), y = pick(known.filter((other) => goes(x, other)));
    const rank = shape.length, dim = Math.floor(random() * rank);
    const choice = random();
    if (choice < 0.35) known.push(g.op(pick(["add", "mul", "sub", "max"]), x, y));
    else if (choice < 0.5) known.push(g.op(pick(["tanh", "sigmoid", "neg", "sin"]), x));
    else if (choice < 0.55) known.push(g.op("where", g.op("gt", x, y), x, y));
    else if (rank === 0) continue;
    else if (choice < 0.68) {
      const dims = [...shape.keys()].filter(() => random() < 0.5);
      known.push(
        g.sum(g.op("mul", x, g.number(0.25)), dims.length ? dims : [dim], pick(["sum", "amax"])),
      );
    } else if (choice < 0.74) known.push(g.permute(x, [...shape.keys()].sort(() => random() - 0.5)));
    else if (choice < 0.8) {
      known.push(g.view("reshape", x, pick([[count(shape)], [1, ...shape], [...shape].reverse()])));
    } else if (choice < 0.85 && shape[dim] > 1) {
      const start = Math.floor(random() * (shape[dim] - 1));
      const cut = shape.with(dim, shape[dim] - start);
      known.push(g.add({ op: "slice", args: [x], dim, start, end: shape[dim], shape: cut, kind: "f32" }));
    } else if (choice < 0.9) {
      const wide = shape.with(dim, shape[dim] + 2);
      known.push(g.add({ op: "embed", args: [x], dim, start: 1, shape: wide, kind: "f32" }));
    } else if (choice < 0.93) {
      const args = [x, x], long = shape.with(dim, 2 * shape[dim]);
      known.push(g.add({ op: "cat", args, dim, shape: long, kind: "f32" }));
    } else if (rank >= 2 && count(shape) < 200) {
      const product = g.gemm(x, x, false, true);
      known.push(random() < 0.5 ? g.op("tanh", product) : g.op("mul", product, g.number(0.1)), product);
    }
  }
  const big = known.filter((ref) => count(g.shape(ref)) < 3000);
  const output = big.at(-1)!, all = (ref: Ref) => g.sum(ref, [...g.shape(ref).keys()]);
  const loss = g.view("reshape", all(g.op("tanh", output)), []);
  const rows = pick(big), w = g.sum(g.op("mul", known[3], g.op("tanh", all(rows))), [0, 1]);
  const share = g.view("reshape", w, [sizes[2]]);
  const whole = g.view("reshape", g.op("sub", known[1], known[3]), sizes);
  return g.graph(output, g.op("add", loss, g.view("reshape", all(rows), [])), [
    share,
    random() < 0.8 ? whole : null,
  ]);
}

Deno.test("random graphs and their plans agree", () => {
  for (let seed = 1; seed <= 400; seed++) {
    const graph = anyGraph(seed);
    try {
      check(graph, false, seed % 2 === 0, seed);
    } catch (error) {
      throw new Error(`seed ${seed}`, { cause: error });
    }
  }
});
