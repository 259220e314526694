// torch.vmap in forward, as torch.export writes it without run_decompositions(): trained here and by PyTorch.
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import { exportedModel, lossFor } from "../../../../core/models/exported/model.ts";
import { type Facts, forward } from "../../../../core/models/model.ts";
import { native } from "../../../../ffi/abi.ts";
import { randn } from "../../../../ffi/ops.ts";
import { manualSeed, setThreads } from "../../../../ffi/context.ts";
import { liveTensors, scope } from "../../../../ffi/tensor.ts";
import { askPeer } from "../../../peer.ts";
import { open, rig, run } from "../../train/rig.ts";
import { entriesOf, writeEntries } from "./fuzz.ts";
import { bits, evaluated, opened, STEPS, train, type Trained } from "./training.ts";
import { assertSentence } from "../../../sentences.ts";

interface Answers {
  readonly answers: Trained[];
  readonly judged: string[];
  readonly refused: string[];
}

open();
setThreads(1);
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const { answers, judged, refused } = await askPeer<Answers>("export_vmap.py", { folder, steps: STEPS });
const pathOf = (name: string) => join(folder, `${name}.pt2`);
const named = (name: string) => answers.find(({ path }) => path === pathOf(name))!;
for (const name of ["linear", "in place"]) { // what is opened once is opened here, and is no test's leak
  const model = opened(named(name));
  train(named(name), model);
  model.root.free();
}

for (const asked of answers) {
  const name = asked.path.slice(folder.length + 1, -".pt2".length);
  Deno.test(`vmap, ${name}: ${STEPS} steps and an evaluation have PyTorch's bits, also when computed twice`, () => {
    for (const checkpointing of [false, true]) {
      const model = opened(asked);
      assertEquals(train(asked, model, checkpointing), asked.losses);
      assertEquals(evaluated(asked, model), asked.evaluated);
      model.root.free();
    }
  });
}

Deno.test("a model is cut between its modules, and no block ends inside of a vmap", () => {
  const model = opened(named("deep"));
  assertEquals(model.blocks.map(({ name }) => name), ["layers.0", "layers.1", "layers.2", "head"]);
  model.root.free();
});

Deno.test("a loss that is mapped over samples is kept behind the prediction, and trains with PyTorch's bits", () => {
  const facts: Facts = { task: "regression", input: { shape: [6], dtype: "f32" }, outputs: 3 };
  for (const checkpointing of [false, true]) {
    const model = exportedModel(pathOf("judged"), { facts });
    const flags = ["--optimizer", "sgd", "--weight-decay", "0"];
    const r = rig(model, facts, { flags, direct: true, checkpointing });
    const loss = lossFor(model, "auto", r.step.pass.loss, facts);
    const step = { ...r.step, pass: { ...r.step.pass, seeds: null, loss } };
    const losses = Array.from({ length: STEPS }, (_, number) =>
      scope(() => {
        manualSeed(BigInt(1000 + number));
        const batch = { input: randn([8, 6]), target: randn([8, 3]) };
        return bits(run({ ...r, step }, [batch], { number, lr: 1e-2 }).loss);
      }));
    assertEquals(losses, judged);
    model.root.free();
  }
});

const REFUSED = {
  "different draws":
    /vmap_increment_nesting: torch\.vmap with randomness="different" is not supported: draw for/,
  "a buffer in place": /aten\.mul_\.Tensor: inside torch\.vmap it writes to what came from outside/,
  "strided":
    /aten\.as_strided\.default: it is not supported inside torch\.vmap: call program\.run_decompositions/,
};

Deno.test("what can't be run inside is refused once, with the line of Python", () => {
  assertEquals(Object.keys(REFUSED), refused);
  for (const [name, sentence] of Object.entries(REFUSED)) {
    const { message } = assertThrows(() => exportedModel(pathOf(name)), UserError);
    assertMatch(message, sentence);
    assertStringIncludes(message, "an operation of this graph can't be run");
    assertStringIncludes(message, "export_vmap.py, line");
  }
});

Deno.test("a libtorch without these functions of C++ refuses vmap once, with what mends it", () => {
  const { unwrapAtLevel } = native;
  native.unwrapAtLevel = null;
  try {
    const { message } = assertThrows(() => exportedModel(pathOf("nested")), UserError);
    assertSentence("core/models/exported/vmap: torch vmap run", message);
    assertStringIncludes(message, "an operation of this graph can't be run");
  } finally {
    native.unwrapAtLevel = unwrapAtLevel;
  }
});

/** A program with something of its graph changed. */
function changed(name: string, change: (graph: Graph) => void): string {
  const entries = entriesOf(pathOf(name)), path = join(folder, "changed.pt2");
  const key = [...entries.keys()].find((entry) => /models\/[^/]+\.json$/.test(entry))!;
  const json = JSON.parse(new TextDecoder().decode(entries.get(key)));
  change(json.graph_module.graph);
  entries.set(key, new TextEncoder().encode(JSON.stringify(json)));
  writeEntries(path, entries);
  return path;
}

interface Graph {
  nodes: { target: string; inputs: { arg: Record<string, unknown> }[]; outputs: unknown[] }[];
}

const placeOf = ({ nodes }: Graph, part: string) => nodes.findIndex(({ target }) => target.includes(part));

Deno.test("a vmap without an end, out of place or of another level is a sentence, and libtorch is as it was", () => {
  const given = (part: string, at: number, arg: Record<string, unknown>) => (graph: Graph) => {
    graph.nodes[placeOf(graph, part)].inputs[at].arg = arg;
  };
  const without = (part: string) => (graph: Graph) => graph.nodes.splice(placeOf(graph, part), 1);
  const cases: [string, (graph: Graph) => void][] = [
    ["its torch.vmap has no end", without("_vmap_decrement")],
    ["its torch.vmap has not begun", without("_vmap_increment")],
    ["belongs to another torch.vmap", given("_add_batch_dim", 2, { as_int: 2 })],
    ["belongs to another torch.vmap", given("_remove_batch_dim", 1, { as_int: 0 })],
    ["no dimension of 8 is there", given("_add_batch_dim", 1, { as_int: 1 })],
    ["no dimension of 8 is there", given("_add_batch_dim", 1, { as_int: -3 })],
    ["no dimension of 3 is there", given("_vmap_increment", 0, { as_int: 3 })],
    ["it can't be entered here", given("_vmap_increment", 0, { as_int: -1 })],
    ["its result has no such dimension", given("_remove_batch_dim", 3, { as_int: 7 })],
    ["means nothing outside of its torch.vmap", (graph) => {
      const name =
        (graph.nodes[placeOf(graph, "_add_batch_dim")].outputs[0] as { as_tensor: unknown }).as_tensor;
      graph.nodes.at(-1)!.inputs[0].arg = { as_tensor: name };
    }],
    ["is made inside of it", (graph) => {
      const at = placeOf(graph, "_add_batch_dim"), node = structuredClone(graph.nodes[at]);
      node.inputs[0].arg = graph.nodes[at].outputs[0] as Record<string, unknown>;
      graph.nodes.splice(at + 1, 0, node);
    }],
  ];
  for (const [sentence, change] of cases) {
    const path = changed("linear", change), before = liveTensors();
    const { message } = assertThrows(() => {
      const model = exportedModel(path);
      try {
        scope(() => forward(model, randn([8, 6])));
      } finally {
        model.root.free();
      }
    }, UserError);
    assertStringIncludes(message, sentence);
    assertEquals(liveTensors(), before);
    const model = opened(named("linear"));
    assertEquals(train(named("linear"), model), named("linear").losses);
    model.root.free();
  }
});
