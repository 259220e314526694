// `--compile=auto` on a CPU: a plan is made where it pays, both ways take turns while the run trains, and no bit says which.
import { assert, assertEquals } from "@std/assert";
import { assertSentence } from "../../sentences.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { settings } from "./rig.ts";
import { Workspace } from "../../../core/compile/workspace.ts";
import { openAutoChoice } from "../../../core/train/compiled_auto.ts";
import { choiceFor, modeOfRun } from "../../../core/train/compiled_choice.ts";
import type { ChoiceInTurn } from "../../../core/train/compiler.ts";
import { noteUserFile, openUserFile } from "../../../core/models/user/file.ts";
import * as library from "../../../mod.ts";
import { trainLoop } from "../../../core/train/loop.ts";
import { latestPath } from "../../../core/train/run_folder.ts";
import { contents, eventsIn, started, trained } from "./started.ts";

const ignore = machineIsa() === null;

const opened = (batches: number, told: string[] = []) => openAutoChoice(batches, (line) => told.push(line));

function busy(milliseconds: number): void {
  for (const began = performance.now(); performance.now() < began + milliseconds;);
}

/** After how many micro-batches of so many milliseconds a plan for every `every`th of them pays; null: never. */
function paysAfter(batches: number, each: number, every = 1): number | null {
  const { whileTraining } = opened(batches);
  const alike = [0, 0];
  for (let seen = 1; seen <= Math.min(batches, 40); seen++) {
    busy(each);
    const kind = seen % every === 0 ? 0 : 1;
    if (whileTraining!.pays(++alike[kind], seen) && kind === 0) return seen;
  }
  return null;
}

Deno.test("a plan pays where the micro-batches to come would take several times what it costs", () => {
  assertEquals(paysAfter(10_000, 1), 4);
  assertEquals(paysAfter(100, 1), null);
  assertEquals(paysAfter(10_000, 1, 2), 8);
  assertEquals(paysAfter(1000, 1, 10), null); // the short last batch of an epoch
});

Deno.test("a run of so few micro-batches that no plan pays does not load the compiler", () => {
  const { training } = settings();
  assertEquals([30, 34].map((batches) => modeOfRun(training, false, batches)), [null, "exact"]);
  assertEquals(paysAfter(33, 20), null);
  assertEquals(modeOfRun(settings("--deterministic").training, false, 1), "exact");
});

/** What is told when one way takes so many milliseconds and the other so many. */
function chosen(compiled: number, ordinary: number): { compiled: boolean; turns: number; told: string[] } {
  const told: string[] = [], choice = opened(1000, told), inTurn = choice.whileTraining!;
  let turns = 0;
  for (; inTurn.open; turns++) inTurn.took(inTurn.next === "compiled" ? compiled : ordinary);
  return { compiled: choice.compiled, turns, told };
}

Deno.test("the faster way is kept, and that steps run op by op is said once", () => {
  assertEquals(chosen(1, 2), { compiled: true, turns: 6, told: [] });
  const slower = chosen(2, 1);
  assertEquals([slower.compiled, slower.turns, slower.told.length], [false, 6, 1]);
  assertSentence("core/train/compiled_auto: steps run op by op", slower.told[0]);
  assertEquals(chosen(1, 1.1).turns, 12); // it is not clear after two turns
});

Deno.test("with --deterministic no time decides: steps are compiled from the first one on", () => {
  const { training } = settings("--deterministic");
  assertEquals(choiceFor(training, "exact", { alone: true, batches: 1 }, () => assert(false)), null);
});

const FLAGS = [
  "--data-type=synthetic",
  "--model=mlp",
  "--train-samples=200",
  "--val-samples=8",
  "--epochs=30",
];

/** Residual layers with a term of its own. */
const NET = `export default ({ nn, ops, model, block, facts, outputs }) => {
  class Net extends nn.Module {
    first = this.child("first", new nn.Linear(facts.input.shape[0], 16));
    last = this.child("last", new nn.Linear(16, outputs));
    forward(x) {
      let y = this.first.forward(x);
      for (let i = 0; i < 3; i++) y = ops.add(y, ops.silu(ops.mul(y, 0.5)));
      return this.last.forward(y);
    }
  }
  return new Net();
};`;

/** The path of a model with this code, which is open. */
async function codeOf(folder: string, js: string): Promise<string> {
  Deno.mkdirSync(folder, { recursive: true });
  const path = `${folder}/net.ts`;
  Deno.writeTextFileSync(path, js);
  noteUserFile(await openUserFile(path, "model", { ...library }, ""));
  return path;
}

Deno.test({
  name:
    "a model in TypeScript is compiled where its code keeps nothing for a later step, and else a line says where",
  ignore,
  async fn() {
    const folder = Deno.makeTempDirSync();
    try {
      const reasons: string[] = [];
      for (const [i, js] of [NET, NET.replace("let y =", "this.calls = 1; let y =")].entries()) {
        const model = await codeOf(`${folder}/${i}`, js);
        await started(`${folder}/run${i}`, [...FLAGS, `--model=${model}`], (run) => {
          reasons.push(run.choice === null ? run.compiling.join() : "compiled");
        });
      }
      assertEquals(reasons[0], "compiled");
      assertEquals(reasons[1].includes(`${folder}/1/net.ts:6 (`), true, reasons[1]);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
});

/** Weights, the optimizer's state and what else is no setting. */
const stateOf = (path: string) =>
  [...contents(path)].filter(([at]) => !/config|seconds|wandb|\/run$/.test(at));

for (
  const [what, ...flags] of [["one micro-batch a step"], ["two", "--grad-accum=2"], [
    "dropout",
    "--set=model.dropout=0.1",
  ], ["a model in TypeScript", "--model=NET"]]
) {
  Deno.test({
    name: `a run has the bits of one with --compile=off, whichever way it takes: ${what}`,
    ignore,
    async fn() {
      const folder = Deno.makeTempDirSync();
      try {
        const net = await codeOf(folder, NET);
        const all = [...FLAGS, "--batch-size=8", ...flags].map((flag) => flag.replace("NET", net));
        const plain = await trained(`${folder}/off`, [...all, "--compile=off"]);
        for (const slower of ["compiled", "op by op"] as const) {
          await started(`${folder}/${slower}`, [...all, "--compile=auto"], async (run) => {
            const seen = new Set<string>(),
              inTurn = run.choice!.whileTraining! as ChoiceInTurn & { next: string };
            const { took } = inTurn;
            inTurn.pays = (alike) => alike > 3;
            inTurn.took = (_) => (seen.add(inTurn.next), took.call(inTurn, inTurn.next === slower ? 2 : 1));
            await trainLoop(run);
            assertEquals([...seen], ["compiled", "op by op"]);
            assertEquals(run.choice!.compiled, slower === "op by op");
            assertEquals(stateOf(latestPath(run.paths)), stateOf(plain.path));
            const losses = (events: typeof plain.events) =>
              events.filter(({ kind }) => kind === "step" || kind === "epoch").map((
                { loss, val_loss },
              ) => [loss, val_loss]);
            assertEquals(losses(await eventsIn(run)), losses(plain.events));
          });
        }
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    },
  });
}

Deno.test({
  name:
    "a large workspace is empty while steps run op by op, and a step that fills its memory again is not timed",
  ignore,
  async fn() {
    const folder = Deno.makeTempDirSync(), all = [...FLAGS, "--batch-size=8"], rested: string[] = [];
    const { isLarge } = Object.getOwnPropertyDescriptors(Workspace.prototype), { rest } = Workspace.prototype;
    try {
      const plain = await trained(`${folder}/off`, [...all, "--compile=off"]);
      Object.defineProperty(Workspace.prototype, "isLarge", { get: () => true, configurable: true });
      await started(`${folder}/auto`, [...all, "--compile=auto"], async (run) => {
        const inTurn = run.choice!.whileTraining! as ChoiceInTurn & { next: string }, { took } = inTurn;
        inTurn.pays = (alike) => {
          if (alike === 4) {
            Workspace.prototype.rest = function () {
              rested.push(inTurn.next), rest.call(this);
            };
          }
          return alike > 3;
        };
        inTurn.took = (
          _,
        ) => (rested.push(`timed ${inTurn.next}`), took.call(inTurn, inTurn.next === "compiled" ? 1 : 2));
        await trainLoop(run);
        assertEquals(stateOf(latestPath(run.paths)), stateOf(plain.path));
      });
      const round = ["timed compiled", "op by op", "timed op by op"];
      assertEquals(rested.slice(-9), [...round, ...round, ...round]);
    } finally {
      Workspace.prototype.rest = rest;
      Object.defineProperty(Workspace.prototype, "isLarge", isLarge);
      Deno.removeSync(folder, { recursive: true });
    }
  },
});
