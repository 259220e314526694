// A run whose compiled steps were refused goes on op by op, whatever they would give by then.
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import type { Ref } from "../../../core/compile/graph.ts";
import type { LoweringRule } from "../../../core/compile/lower/lowering.ts";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import type { Team } from "../../../core/ranks/team.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import type { Mode } from "../../../core/train/compiler.ts";
import { openRefusals } from "../../../core/train/compiled_choice.ts";
import { freshCursor } from "../../../core/train/resume.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { randn } from "../../../ffi/ops.ts";
import { inFolder } from "../checkpoint/python.ts";
import { open, rig, rows, run } from "./rig.ts";
import { spoilt } from "./spoilt.ts";
import { contents, type Trained, trained } from "./started.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const isa = machineIsa(), ignore = isa === null;
if (isa) loadCode(printCode([], isa, 1)); // what it opens stays open

/** Layers' results are 1% too large. */
const larger = (right: LoweringRule): LoweringRule => (g, ...args) =>
  g.b.pointwise("mul", right(g, ...args) as Ref, g.b.number(1.01));
const wrong = <R>(body: () => Promise<R>) => spoilt("linear", larger, body);

const FLAGS = [
  ...["--data-type=synthetic", "--model=mlp", "--hidden-size=16", "--dropout=0.1", "--scheduler=constant"],
  ...["--train-samples=48", "--val-samples=8", "--batch-size=6", "--epochs=2"],
];

const warnings = ({ events }: Trained) => events.filter(({ kind }) => kind === "warning");
const bits = ({ path }: Trained) =>
  [...contents(path)].filter(([place]) => !/^\/config|\/run$|^\/val_loss/.test(place));

for (const compile of ["--compile=fast", "--compile", "--compile=exact"]) {
  Deno.test({
    name:
      `a run with ${compile} whose steps were refused goes on op by op, with the bits of one that was never stopped`,
    ignore,
    fn: inFolder(async (folder) => {
      const steps = (name: string, count: number, from: string | null = null) =>
        trained(`${folder}/${name}`, [...FLAGS, compile, `--max-steps=${count}`], from);
      const whole = await wrong(() => steps("whole", 12));
      const first = await wrong(() => steps("parts", 3));
      for (const one of [whole, first]) assertMatch(warnings(one)[0].message, /so steps run op by op/);
      const rest = await steps("parts", 12, first.path);
      const [{ message }, ...others] = warnings(rest);
      assertSentence("core/train/compiled_refusals: these batches steps", message);
      assertEquals(others, []);
      assertEquals(bits(rest), bits(whole));
      if (compile !== "--compile=fast") return;
      const compiled = await steps("compiled", 12);
      assertNotEquals(bits(compiled), bits(whole)); // the bits tell whether steps were compiled
    }),
  });
}

Deno.test({
  name: "what was refused is not compared again, and the run says so once; another way is compared",
  ignore,
  async fn() {
    const refused = new Set<string>();
    const told = (mode: Mode, sizes: readonly number[]): Promise<string[]> => {
      manualSeed(0n);
      const lines: string[] = [], hear = (text: string) => void lines.push(text);
      const tell = { line: hear, warn: hear };
      const made = rig(mlp({ inputs: 7, hidden: 24, layers: 2, outputs: 1 }), rows);
      const compiled = openCompiledPass(made.arena, mode, () => tell, null, true, refused);
      for (const [number, size] of sizes.entries()) {
        const batch = { input: randn([size, 7]), target: randn([size, 1]) };
        run({ ...made, step: { ...made.step, compiled } }, [batch], { number });
        for (const t of Object.values(batch)) t.free();
      }
      return Promise.resolve(lines);
    };
    const [first, ...none] = await wrong(() => told("fast", [8, 8]));
    assertSentence("core/train/compiled_refusals: compiled steps give", first);
    assertEquals([none, [...refused]], [[], ["fast: f32 8x7, f32 8x1"]]);
    const [kept, ...more] = await told("fast", [8, 8]);
    assertSentence("core/train/compiled_refusals: these batches steps run", kept);
    assertEquals(more, []);
    assertMatch(
      (await told("fast", [8, 5])).join("\n"),
      /^With these batches .*\nSteps are compiled: [^\n]*$/,
    );
    assertMatch((await told("exact", [8, 8])).join("\n"), /^Steps are compiled: [^\n]*$/);
  },
});

Deno.test("each rank keeps what it has refused itself", () => {
  const cursor = freshCursor(), own = [["fast: a"], []];
  const team = (rank: number) => ({ rank, gather: () => own }) as unknown as Team;
  const before = openRefusals(cursor, team(0));
  assertEquals([...before.own], []);
  before.keep();
  assertEquals([0, 1, 2].map((rank) => [...openRefusals(cursor, team(rank)).own]), [["fast: a"], [], []]);
  const alone = freshCursor();
  openRefusals(alone, null).keep();
  assert(!("refused" in alone));
});
