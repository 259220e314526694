// Models that users bring: exported by live PyTorch, trained here and there with the same batches. HPCTRAIN_EXPORTED=all
// takes every model of tests/peers/export_models.py (scripts/exported), else those that are quick to export.
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { join } from "paths";
import { readPt, writePt } from "../../core/checkpoint/pt.ts";
import { toData } from "../../core/checkpoint/training_state.ts";
import type { Value } from "../../core/checkpoint/value.ts";
import { writePage } from "../../bench/page.ts";
import { table } from "../../bench/report.ts";
import type { ExportedModel } from "../../core/models/exported/model.ts";
import { parameterCount } from "../../core/models/model.ts";
import { liveTensors } from "../../ffi/tensor.ts";
import {
  evaluated,
  loadedInPython,
  opened,
  STEPS,
  train,
  type Trained,
  trainedInPython,
} from "../core/models/exported/training.ts";
import { ALL, QUICK } from "../core/compile/program_names.ts";
import { open } from "../core/train/rig.ts";
import { run, succeed } from "./program.ts";
import { assertSentence } from "../sentences.ts";

const EACH = Deno.env.get("HPCTRAIN_EXPORTED") === "all";
/** Whether bench/results gets the table of them. */
const TABLE = EACH && Deno.env.get("HPCTRAIN_EXPORTED_TABLE") === "1";
const NAMES = EACH ? ALL : QUICK;

/** In evaluation PyTorch's own attention layers take a fused way that no graph has: other bits, the same numbers. */
const FUSED_IN_EVALUATION = new Set(["encoder", "vit_b_16"]);

/** What a module decides by self.training is decided when it is exported: this one's spectral norm goes on iterating. */
const DECIDED_BEFORE = new Set(["unet_odd"]);
/** Losses that are the same but for rounding: variances with a correction of 2 have no form of their own here. */
const ROUNDED = new Set(["types"]);

open();
const folder = Deno.makeTempDirSync();
globalThis.addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));
const theirs = await trainedInPython(NAMES, folder);
opened(theirs[NAMES.indexOf("physics")]).root.free(); // what is opened once is opened here, and is no test's leak
const of = (name: string): Trained => theirs[NAMES.indexOf(name)];
const weightsOf = (name: string): string => join(folder, `${name}.trained.pt`);

Deno.test({
  name: "an exported graph says how it attends",
  sanitizeResources: false, // libtorch stays open
  fn: () => {
    const attends = (name: string) => {
      const model = opened(of(name));
      model.root.free();
      return model.attends;
    };
    const gpt = { heads: 4, width: 8, causal: true, dropout: 0.1, masked: false };
    assertEquals(attends("gpt"), [gpt, gpt, gpt]);
    assertEquals(attends("decoder").map(({ causal }) => causal), [true, false, true, false]);
    assertEquals(attends("resnet18"), []);
  },
});

const rowsOfTable: string[][] = [];

function rowOf(name: string, model: ExportedModel, losses: readonly string[]): string[] {
  const equal = losses.filter((loss, i) => loss === of(name).losses[i]).length;
  const operations = /(\d+) operations/.exec(model.describe())![1];
  const parameters = parameterCount(model.root).toLocaleString("en-US");
  return [name, parameters, operations, String(model.blocks.length), `${equal} of ${STEPS}`];
}

/** Once all have loaded into the Python modules. */
function writeTable(): void {
  writePage(
    "exported-models",
    [
      "# Models exported by PyTorch",
      `\`./scripts/exported\`: each is exported by live PyTorch and trained for ${STEPS} steps here and there, on one thread with ` +
      "the same batches and optimizer; then its weights are loaded into the Python module with strict=True. All did. " +
      "Losses count as equal when all 32 bits are.",
      table(["Model", "Parameters", "Operations", "Blocks", "Equal losses"], rowsOfTable),
    ].join("\n\n"),
  );
}

const numberOf = (hex: string): number => new DataView(Uint8Array.fromHex(hex).buffer).getFloat32(0);

function assertNear(ours: readonly string[], theirs: readonly string[]): void {
  ours.forEach((hex, i) => {
    const [a, b] = [hex, theirs[i]].map(numberOf);
    assert(Math.abs(a - b) <= 1e-5 * Math.abs(b), `step ${i + 1}: ${a}, and PyTorch has ${b}`);
  });
}

function saveWeights(path: string, model: ExportedModel): void {
  writePt(path, new Map(model.root.stateDict().map(([name, t]): [string, Value] => [name, toData(t)])));
}

// What is opened to look operations up and to call them stays open for the life of the process.
const staysOpen = { sanitizeResources: false };

for (const name of NAMES) {
  Deno.test(`${name}, exported by PyTorch, has its loss bits for ${STEPS} steps`, staysOpen, () => {
    const before = liveTensors();
    const model = opened(of(name));
    const losses = train(of(name), model);
    if (ROUNDED.has(name)) assertNear(losses, of(name).losses);
    else assertEquals(losses, of(name).losses);
    assertNotEquals(losses[0], losses[STEPS - 1]);
    assert(losses.every((loss) => Number.isFinite(numberOf(loss))), "the losses are numbers");
    if (!FUSED_IN_EVALUATION.has(name) && !DECIDED_BEFORE.has(name) && !ROUNDED.has(name)) {
      assertEquals(evaluated(of(name), model), of(name).evaluated);
    }
    rowsOfTable.push(rowOf(name, model, losses));
    saveWeights(weightsOf(name), model);
    model.root.free();
    // The optimizer's and the arena's tensors stay with the rig; what a step made is gone.
    assert(liveTensors() - before < 4 * model.root.stateDict().length + 20);
  });
}

Deno.test("weights that were trained here load into the Python modules, strictly, and are those that Python trained", async () => {
  const cases = NAMES.map((name) => [name, weightsOf(name), `${of(name).path}.eager.pt`] as const);
  const far = await loadedInPython(cases);
  NAMES.forEach((name, i) => assert(far[i] <= (ROUNDED.has(name) ? 1e-3 : 0), `${name}: ${far[i]}`));
  if (TABLE) writeTable();
});

for (const name of ["resnet18", "unet", "decoder", "physics"]) {
  Deno.test(`${name} trains to the same bits when its blocks are computed twice`, () => {
    const model = opened(of(name));
    assert(model.blocks.length >= 3, `${model.blocks.length} blocks`);
    assertEquals(train(of(name), model, true), of(name).losses);
    model.root.free();
  });
}

Deno.test("the blocks of a resnet18 are its residual blocks, one tensor between them", () => {
  const model = opened(of("resnet18"));
  assertEquals(
    model.blocks.map(({ name }) => name),
    "conv1 maxpool layer1.1 layer2.0 layer2.1 layer3.0 layer3.1 layer4.0 layer4.1 avgpool".split(" "),
  );
  assertStringIncludes(model.describe(), "11,181,642 parameters");
  model.root.free();
});

Deno.test("an embedding that is tied to the last layer is trained once and saved under both names", () => {
  const model = opened(of("gpt"));
  const tied = model.root.stateDict().filter(([name]) => /wte|lm_head/.test(name));
  assertEquals(tied.map(([name]) => name).sort(), ["lm_head.weight", "transformer.wte.weight"]);
  assert(tied[0][1] === tied[1][1]);
  assertEquals(model.root.namedParameters().filter(([name]) => /wte|lm_head/.test(name)).length, 1);
  model.root.free();
});

// ---- from the command line -----------------------------------------------------------------------------------

async function rows(path: string): Promise<void> {
  const lines = Array.from({ length: 48 }, (_, i) => `${Math.sin(i)},${Math.cos(3 * i)},${Math.sin(2 * i)}`);
  await Deno.writeTextFile(path, ["a,b,c", ...lines].join("\n") + "\n");
}

Deno.test("--model my.pt2 trains, resumes, is evaluated, and its checkpoint loads into the Python module", async () => {
  const cwd = join(folder, "run");
  await Deno.mkdir(cwd);
  await rows(join(cwd, "rows.csv"));
  const flags = [
    "--model",
    of("physics").path,
    "--data-path",
    "rows.csv",
    "--batch-size",
    "8",
    "--threads",
    "1",
  ];
  const more = ["--set", "data.targets=c", "--validation-split", "0.25", "--no-wandb"];
  const { stdout } = await succeed([...flags, ...more, "--epochs", "2"], { cwd });
  assertStringIncludes(stdout, "exported by PyTorch");
  assertStringIncludes(stdout, "Blocks: layers.0, layers.1, layers.2, last");
  const path = join(cwd, "checkpoints", "physics_latest.pt");
  await succeed([...flags, ...more, "--epochs", "3", "--resume", path, "--gradient-checkpointing"], { cwd });
  // It lies outside of the folder one is in, so what the checkpoint alone names is not run.
  const named = ["--model", of("physics").path];
  assertStringIncludes((await succeed(["eval", path, ...named], { cwd })).stdout, "Val Loss");
  using file = readPt(path);
  const state = (file.root as Map<string, Value>).get("model_state_dict")!;
  const alone = join(cwd, "weights.pt");
  writePt(alone, state);
  const [far] = await loadedInPython([["physics", alone, `${of("physics").path}.eager.pt`]]);
  assert(far > 0); // other weights, under the same names
  const init = await succeed([
    ...flags,
    ...more,
    "--epochs",
    "1",
    "--init-from",
    `${of("physics").path}.eager.pt`,
  ], {
    cwd,
  });
  assertStringIncludes(init.stdout, "Weights from");
});

Deno.test("data that does not fit the exported graph is told before training, in one sentence", async () => {
  const cwd = join(folder, "unfit");
  await Deno.mkdir(cwd);
  await rows(join(cwd, "rows.csv"));
  const start = (name: string, ...more: string[]) =>
    run([
      "--model",
      of(name).path,
      "--data-path",
      "rows.csv",
      "--set",
      "data.targets=c",
      "--no-wandb",
      ...more,
    ], {
      cwd,
    });
  const shape = await start("resnet18");
  assertEquals(shape.code, 2);
  assertSentence("integration/exported: input takes samples", shape.stderr);
  const missing = await run(["--model", "nowhere.pt2", "--data-path", "rows.csv", "--no-wandb"], { cwd });
  assertStringIncludes(missing.stderr, "nowhere.pt2: there is no such file");
});
