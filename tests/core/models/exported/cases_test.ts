// What an exported program may hold that is refused, warned of, or easily done wrong; and programs that are damaged.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { describeProgram } from "../../../../commands/run/inspect.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { refusedName } from "../../../../core/models/exported/admitted.ts";
import { openExported } from "../../../../core/models/exported/archive.ts";
import { type ExportedModel, exportedModel } from "../../../../core/models/exported/model.ts";
import { forward } from "../../../../core/models/model.ts";
import { backward, gradOf } from "../../../../ffi/autograd.ts";
import { NativeError } from "../../../../ffi/errors.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { mean, randn, reshape, slice, square, sum } from "../../../../ffi/ops.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { liveTensors, scope, type Tensor } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open } from "../../train/rig.ts";
import { damagedBytes, damagedTree, dice, entriesOf, writeEntries } from "./fuzz.ts";
import { assertSentence } from "../../../sentences.ts";

interface Answers {
  scalars: { output: number[]; gradients: number[][] };
  counting: { outputs: number[][]; buffers: Record<string, number[]> };
  sizes: { outputs: number[][]; buffers: Record<string, number[]> };
}

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers } = await askPeer<{ answers: Answers }>("export_cases.py", { folder });
const pathOf = (name: string) => join(folder, `${name}.pt2`);
const opened = (name: string): ExportedModel => exportedModel(pathOf(name));
opened("scalars").root.free(); // what is opened once is opened here, and is no test's leak

const run = (model: ExportedModel, ...inputs: Tensor[]): Tensor =>
  forward(model, inputs.length === 1 ? inputs[0] : inputs) as Tensor;

function refusal(name: string, ...shapes: number[][]): string {
  const error = assertThrows(() => {
    const model = opened(name);
    try {
      scope(() => run(model, ...shapes.map((shape) => randn(shape))));
    } finally {
      model.root.free();
    }
  }, UserError);
  return error.message.replaceAll(`${folder}/`, "");
}

Deno.test("numbers in all places, in place and out of place, give PyTorch's bits, and so do their gradients", () => {
  const model = opened("scalars");
  manualSeed(10n);
  scope(() => {
    const y = run(model, randn([6, 5]));
    assertEquals([...toNumbers(y)], answers.scalars.output);
    backward(mean(square(y)));
    const gradients = model.root.namedParameters().map(([, p]) => [...toNumbers(gradOf(p)!)]);
    assertEquals(gradients, answers.scalars.gradients);
  });
  model.root.free();
});

for (const [name, shape] of [["counting", [4, 3]], ["sizes", [3, 10, 4]]] as const) {
  const what = name === "counting" ? "buffers that forward writes to" : "sizes that are known only at a run";
  Deno.test(`${what} are what they are in PyTorch`, () => {
    const model = opened(name);
    for (const [step, expected] of answers[name].outputs.entries()) {
      manualSeed(BigInt(10 + step));
      assertEquals(scope(() => [...toNumbers(run(model, randn(shape)))]), expected);
    }
    const buffers = model.root.namedBuffers().map(([key, t]) => [key, [...toNumbers(t)]]);
    assertEquals(Object.fromEntries(buffers), answers[name].buffers);
    model.root.train(false);
    scope(() => run(model, randn(shape)));
    const after = model.root.namedBuffers().map(([key, t]) => [key, [...toNumbers(t)]]);
    assertEquals(after, buffers); // evaluation leaves them alone
    model.root.free();
  });
}

Deno.test("batch norm's statistics move in training, in a graph with in-place ops and in one without", () => {
  const found = ["net", "lowered"].map((name) => {
    const model = opened(name);
    manualSeed(3n);
    scope(() => backward(sum(run(model, randn([5, 1, 8, 8])))));
    const buffers = Object.fromEntries(model.root.namedBuffers().map(([key, t]) => [key, [...toNumbers(t)]]));
    model.root.free();
    return buffers;
  });
  assertEquals(found[0]["norm.num_batches_tracked"], [1]);
  assert(found[0]["norm.running_mean"].some((value) => value !== 0));
  assertEquals(found[1], found[0]);
});

Deno.test("evaluation turns dropout off and takes the running statistics", () => {
  const model = opened("net");
  model.root.train(false);
  scope(() => {
    manualSeed(1n);
    const x = randn([4, 1, 8, 8]);
    const [first, second] = [run(model, x), run(model, x)].map((y) => [...toNumbers(y)]);
    assertEquals(first, second);
  });
  assertEquals(model.root.namedBuffers().map(([, t]) => toNumbers(t)[0]), [0, 1, 0]);
  model.root.free();
});

Deno.test("the layout of before PyTorch 2.8 holds the same model", () => {
  const [old, now] = ["old", "net"].map((name) => {
    using archive = openExported(pathOf(name));
    const model = opened(name);
    const state = model.root.stateDict().map(([key, t]) => [key, [...toNumbers(t)]] as const);
    model.root.free();
    return { state: new Map(state), nodes: archive.program.nodes.length };
  });
  assertEquals(old, now);
});

Deno.test("a part that is frozen in Python stays as it is", () => {
  const model = opened("frozen");
  assertEquals(model.root.namedParameters().map(([name]) => name), ["head.weight", "head.bias"]);
  assertEquals(model.root.stateDict().length, 4);
  model.root.free();
});

Deno.test("a graph of evaluation mode is warned of, with the line that made it; one of training is not", () => {
  const [evaluated, trained] = ["evaluated", "net"].map((name) => {
    const model = opened(name);
    model.root.free();
    return model.warnings.join("\n");
  });
  assertSentence("core/models/exported/cases: batch norm frozen", evaluated);
  assertStringIncludes(evaluated, "call model.train() before torch.export.export");
  assertEquals(trained, "");
});

Deno.test("control flow and operations of other libraries are refused with the user's own line", () => {
  const cond = refusal("cond", [4, 3]);
  assertSentence("core/models/exported/cases: torch ops higher_order", cond);
  assertStringIncludes(cond, "export_cases.py, line 21: return torch.cond(");
  const custom = refusal("custom", [4, 3]);
  assertSentence("core/models/exported/cases: torch ops mylab", custom);
  assertStringIncludes(custom, "return torch.ops.mylab.twice(self.layer(x))");
  assertStringIncludes(custom, "run_decompositions({torch.ops....default: f})");
  assert(!custom.includes("Often mended"), "run_decompositions() alone leaves it as it is");
  assertStringIncludes(
    refusedName("transformers", "grouped_mm_fallback", "default"),
    'model.set_experts_implementation("batched_mm") before torch.export.export',
  );
});

Deno.test("inputs that the graph was not exported for are refused", () => {
  assertSentence("core/models/exported/cases: fixed exported batches", refusal("fixed", [3, 1, 8, 8]));
  assertSentence("core/models/exported/cases: exported dimension given", refusal("net", [3, 1, 9, 8]));
  assertSentence("core/models/exported/cases: input dimensions given", refusal("net", [3, 8, 8]));
  assertStringIncludes(refusal("two", [3, 3]), "forward takes 2 tensors (left, right)");
  assertStringIncludes(refusal("sizes", [3, 80, 4]), "was exported for at most 64 in dimension 1 of x");
  assertSentence("core/models/exported/cases: exported multiples dimension", refusal("sizes", [3, 9, 4]));
  assertSentence("core/models/exported/cases: parameter head weight", refusal("half", [3, 3]));
});

Deno.test("two inputs are taken in their order", () => {
  const model = opened("two");
  scope(() => assertEquals(run(model, randn([5, 3]), randn([5, 3])).shape, [5, 2]));
  model.root.free();
});

Deno.test("a step leaves no tensor behind", () => {
  for (
    const [name, shape] of [["net", [4, 1, 8, 8]], ["counting", [4, 3]], ["lowered", [4, 1, 8, 8]]] as const
  ) {
    const model = opened(name);
    const once = () => scope(() => backward(sum(run(model, randn(shape)))));
    once();
    const before = liveTensors();
    once();
    assertEquals(liveTensors(), before, name);
    model.root.free();
  }
});

Deno.test("operations that are missing are told all at once, before anything is computed", () => {
  const entries = entriesOf(pathOf("net"));
  const name = [...entries.keys()].find((key) =>
    key.endsWith("models/net.json") || key.endsWith("models/model.json")
  )!;
  const text = new TextDecoder().decode(entries.get(name))
    .replace("torch.ops.aten.relu.default", "torch.ops.aten.relu_of_tomorrow.default")
    .replace("torch.ops.aten.linear.default", "torch.ops.aten.linear_of_tomorrow.default");
  const path = pathOf("tomorrow");
  writeEntries(path, new Map([...entries, [name, new TextEncoder().encode(text)]]));
  const { message } = assertThrows(() => exportedModel(path), UserError);
  assertSentence("core/models/exported/cases: operations graph run", message);
  assertSentence("core/models/exported/cases: relu_of_tomorrow default libtorch", message);
  assertSentence("core/models/exported/cases: linear_of_tomorrow default libtorch", message);
});

/** The program "net" with a node in front of all others. */
function withNode(name: string, node: Record<string, unknown>, output: Record<string, unknown>): string {
  const entries = entriesOf(pathOf("net"));
  const key = [...entries.keys()].find((entry) => /models\/[^/]+\.json$/.test(entry))!;
  const json = JSON.parse(new TextDecoder().decode(entries.get(key)));
  const { graph } = json.graph_module;
  graph.nodes.unshift({ inputs: [], outputs: [output], metadata: {}, ...node });
  const path = pathOf(name);
  writeEntries(path, new Map([...entries, [key, new TextEncoder().encode(JSON.stringify(json))]]));
  return path;
}

Deno.test("a program that would make or overwrite a file is refused, inspect says so, and the file is as it was", () => {
  const [made, kept] = [join(folder, "made.bin"), join(folder, "kept.bin")];
  Deno.writeTextFileSync(kept, "as it was");
  for (const filename of [made, kept]) {
    const given = (name: string, arg: unknown) => ({ name, arg, kind: 1 });
    const path = withNode("file", {
      target: "torch.ops.aten.from_file.default",
      inputs: [
        given("filename", { as_string: filename }),
        given("shared", { as_bool: true }),
        given("size", { as_int: 2 }),
      ],
    }, { as_tensor: { name: "opened" } });
    const { message } = assertThrows(() => exportedModel(path), UserError);
    assertSentence("core/models/exported/cases: torch ops aten", message);
    using archive = openExported(path);
    assertEquals(describeProgram(archive).refused.map(({ operation }) => operation), [
      "torch.ops.aten.from_file.default",
    ]);
  }
  assertThrows(() => Deno.statSync(made), Deno.errors.NotFound);
  assertEquals(Deno.readTextFileSync(kept), "as it was");
});

Deno.test("a view may look at its own tensor alone, not at what lies beside it in memory", () => {
  const given = (name: string, arg: unknown) => ({ name, arg, kind: 1 });
  for (const [size, offset, fits] of [[64, null, true], [65, null, false], [64, 0, false]] as const) {
    const path = withNode("strided", {
      target: "torch.ops.aten.as_strided.default",
      inputs: [
        given("self", { as_tensor: { name: "x" } }),
        given("size", { as_ints: [size] }),
        given("stride", { as_ints: [1] }),
        given("storage_offset", offset === null ? { as_none: true } : { as_int: offset }),
      ],
    }, { as_tensor: { name: "seen" } });
    const model = exportedModel(path);
    const once = () => scope(() => void run(model, reshape(slice(randn([3, 64]), 0, 1, 2), [1, 1, 8, 8])));
    if (fits) once();
    else assertStringIncludes(assertThrows(once, UserError).message, "it looks outside its tensor");
    model.root.free();
  }
});

Deno.test("a node that names other results than its operation gives is refused before anything runs", () => {
  const entries = entriesOf(pathOf("net"));
  const name = [...entries.keys()].find((key) => key.includes("models/") && key.endsWith(".json"))!;
  const text = new TextDecoder().decode(entries.get(name));
  const odd: [string, (outputs: unknown[]) => unknown[], string][] = [
    [
      "relu.default",
      (all) => [...all, { as_tensor: { name: "more" } }],
      "it gives 1 results, and 2 are named here",
    ],
    [
      "relu.default",
      (all) => [{ as_tensors: [(all[0] as { as_tensor: unknown }).as_tensor] }],
      "a list is named here",
    ],
    ["linear.default", () => [], "it gives 1 results, and 0 are named here"],
  ];
  for (const [target, change, why] of odd) {
    const tree = JSON.parse(text);
    const node = tree.graph_module.graph.nodes.find((n: { target: string }) => n.target.endsWith(target));
    node.outputs = change(node.outputs);
    const path = pathOf("odd");
    writeEntries(path, new Map([...entries, [name, new TextEncoder().encode(JSON.stringify(tree))]]));
    const { message } = assertThrows(() => exportedModel(path), UserError);
    assertStringIncludes(message, why);
  }
});

Deno.test("--blocks makes fewer blocks, which compute the same", () => {
  const [one, all] = [1, 0].map((blocks) => {
    const model = exportedModel(pathOf("net"), { blocks });
    model.root.train(false);
    manualSeed(4n);
    const y = scope(() => [...toNumbers(run(model, randn([4, 1, 8, 8])))]);
    model.root.free();
    return {
      y,
      count: model.blocks.length,
      parameters: model.blocks.map(({ module }) => module?.namedParameters().length),
    };
  });
  assertEquals([one.count, one.parameters], [1, [6]]);
  assertEquals([all.count, all.parameters], [2, [4, 2]]);
  assertEquals(one.y, all.y);
});

Deno.test("inspect tells a program's inputs, outputs, operations and weights", () => {
  using archive = openExported(pathOf("net"));
  const found = describeProgram(archive);
  assertEquals(found.inputs.map(({ name, dtype, shape }) => [name, dtype, shape.slice(1)]), [["x", "f32", [
    1,
    8,
    8,
  ]]]);
  assertEquals(found.outputs.map(({ dtype, shape }) => [dtype, shape.slice(1)]), [["f32", [2]]]);
  assertEquals(found.operations["aten.conv2d.default"], 1);
  assertEquals(found.tensors.filter(({ kind }) => kind === "parameter").length, 6);
  assertEquals(found.tensors.find(({ name }) => name === "norm.num_batches_tracked")?.dtype, "i64");
});

const FUZZED = 1000;

for (const [name, shape] of [["net", [3, 1, 8, 8]], ["counting", [4, 3]]] as const) {
  Deno.test(`${FUZZED} damaged programs made from "${name}" are run or refused in a sentence, none ends the process`, () => {
    const roll = dice(name.length);
    const bytes = Deno.readFileSync(pathOf(name)), entries = entriesOf(pathOf(name));
    const jsons = [...entries.keys()].filter((key) => key.endsWith(".json") && entries.get(key)!.length > 20);
    const path = pathOf("damaged");
    let refused = 0;
    for (let i = 0; i < FUZZED; i++) {
      if (i % 2 === 0) Deno.writeFileSync(path, damagedBytes(bytes, roll));
      else {
        const key = jsons[
          roll(3) > 0 ? jsons.findIndex((json) => json.includes("models/")) : roll(jsons.length)
        ];
        const tree = damagedTree(JSON.parse(new TextDecoder().decode(entries.get(key))), roll);
        writeEntries(path, new Map([...entries, [key, new TextEncoder().encode(JSON.stringify(tree))]]));
      }
      try {
        const model = exportedModel(path);
        try {
          scope(() => backward(sum(run(model, randn(shape)))));
        } finally {
          model.root.free();
        }
      } catch (error) {
        // Backward's faults are told by the trainer, as those of any model.
        assert(error instanceof UserError || error instanceof NativeError, `case ${i}: ${error}`);
        assertStringIncludes(
          (error as Error).message,
          error instanceof UserError ? "damaged.pt2" : "_backward",
        );
        refused++;
      }
    }
    assert(refused > FUZZED / 3 && refused < FUZZED, `${refused} refused`);
  });
}
