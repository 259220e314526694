// The faster of two ways is taken where the choice is open, told where it is not, and kept by a run that goes on.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { machineIsa } from "../../../ffi/machine.ts";
import { printCode } from "../../../core/compile/x86/print.ts";
import { mlp } from "../../../core/models/zoo/mlp.ts";
import { Buffers } from "../../../core/train/compared_buffers.ts";
import { keepChoice, openChoice } from "../../../core/train/compiled_choice.ts";
import type { Choice } from "../../../core/train/compiler.ts";
import { atOtherWeights, judgeAdding } from "../../../core/train/compiled_check.ts";
import { openCompiledPass } from "../../../core/train/compiled_pass.ts";
import type { Plans } from "../../../core/train/compiled_plans.ts";
import { compiledUpdate } from "../../../core/train/compiled_update.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { loadCode } from "../../../ffi/machine_code.ts";
import { fill_, readBytes, toNumbers, writeBytes } from "../../../ffi/make.ts";
import { randn } from "../../../ffi/ops.ts";
import { open, rig, rows, run, settings, weights } from "./rig.ts";
import { assertSentence } from "../../sentences.ts";

open();
setThreads(1);
const ignore = machineIsa() === null;
if (!ignore) loadCode(printCode([], machineIsa()!, 1)); // what it opens stays open

const nothing = () => {};
const slow = () => {
  for (const began = performance.now(); performance.now() < began + 2;);
};

function compared(flags: string[], compiled: () => void, ordinary: () => void, alone = true) {
  const { training } = settings(...flags), told: string[] = [];
  const choice = openChoice(training, "fast", alone, (line) => told.push(line));
  choice.compare({ run: compiled, prepare: nothing }, { run: ordinary, prepare: slow }); // which is not timed
  return { kept: choice.compiled, setting: training.compile, told: told.join(" ") };
}

Deno.test("--compile takes the faster way, and the run's settings have it", () => {
  const faster = compared(["--compile"], nothing, slow);
  assertEquals([faster.kept, faster.setting], [true, "fast"]);
  assertMatch(
    faster.told,
    /^With these batches forward and backward take \S+ ms compiled and \S+ ms op by op\.$/,
  );
  const slower = compared(["--compile"], slow, nothing);
  assertEquals([slower.kept, slower.setting], [false, "off"]);
  assertSentence("core/train/compiled_choice: steps run compiled", slower.told);
});

Deno.test("--compile=fast is not overruled, nor are ranks: times are told", () => {
  for (
    const { kept, told } of [
      compared(["--compile=fast"], slow, nothing),
      compared(["--compile"], slow, nothing, false),
    ]
  ) {
    assert(kept);
    assertMatch(told, /: --no-compile is faster\.$/);
  }
});

Deno.test("a run that goes on with --compile goes on as it has chosen", () => {
  const goesOn = (saved: string, ...flags: string[]) => {
    const config = settings(...flags), told = keepChoice(config, { training: { compile: saved } });
    return [config.training.compile, told.length];
  };
  assertEquals(goesOn("off", "--compile"), ["off", 1]);
  assertEquals(goesOn("fast", "--compile"), ["fast", 0]);
  assertEquals(goesOn("fast", "--compile", "--deterministic"), ["on", 0]);
  assertEquals(goesOn("exact", "--compile", "--deterministic"), ["exact", 0]);
  assertEquals(goesOn("on", "--compile"), ["on", 0]);
  assertEquals(goesOn("off", "--compile=fast"), ["fast", 0]);
  assertEquals(keepChoice(settings("--compile"), null), []);
});

const net = () => mlp({ inputs: 7, hidden: 24, layers: 2, outputs: 1 });

Deno.test({
  name: "steps that were slower compiled go on as ordinary ones, update and all",
  ignore,
  async fn() {
    const digests: string[][] = [];
    for (const compiled of [false, true]) {
      manualSeed(0n);
      const made = rig(net(), rows, { flags: ["--optimizer", "adamw"] });
      let asked = 0;
      const choice = { compiled: true, compare: () => (asked++, choice.compiled = false) } as Choice & {
        compiled: boolean;
      };
      const tell = { line: nothing, warn: (text: string) => assert(false, text) };
      const { optimizer } = settings("--optimizer", "adamw").training;
      const step = compiled
        ? {
          ...made.step,
          compiled: openCompiledPass(made.arena, "exact", () => tell, choice),
          optimizer: compiledUpdate(made.step.optimizer, optimizer, made.arena, choice),
        }
        : made.step;
      manualSeed(1n);
      const batch = { input: randn([8, 7]), target: randn([8, 1]) };
      if (compiled) choice.compiled = true;
      for (let number = 0; number < 5; number++) {
        // The update of the first two steps rounds otherwise, so both begin with the third.
        run({ ...made, step: number < 2 ? { ...step, optimizer: made.step.optimizer } : step }, [batch], {
          number,
        });
      }
      assertEquals(asked, compiled ? 1 : 0);
      digests.push(await weights(made));
      for (const t of Object.values(batch)) t.free();
    }
    assertEquals(digests[1], digests[0]);
  },
});

Deno.test({
  name: "a plan that does not add what it writes is found out, and the arena stays as it was",
  ignore,
  fn() {
    const { arena } = rig(net(), rows);
    const plans = (adding: number) =>
      ({
        run: (_input: unknown, _target: unknown, _weight: unknown, adds: boolean) =>
          void fill_(arena.gradient, adds ? adding : 2),
      }) as unknown as Plans;
    fill_(arena.gradient, 1);
    const given = { input: arena.flat, target: arena.flat, weight: null }, none = new Buffers([]);
    for (const mode of ["exact", "fast"] as const) {
      const how = { mode, half: false };
      assertEquals(judgeAdding(plans(3), arena, given, how, none, nothing).wrong, null);
      assertMatch(judgeAdding(plans(2), arena, given, how, none, nothing).wrong!, /weight: 33%$/);
    }
    assert(toNumbers(arena.gradient).every((value) => value === 1));
  },
});

Deno.test("weights are moved for a while, and are what they were to the bit", () => {
  const { arena } = rig(mlp({ inputs: 70, hidden: 100, layers: 2, outputs: 1 }), rows);
  writeBytes(arena.flat, new Uint8Array(new Float32Array([0, -0, 1e-30, 3]).buffer));
  const before = toNumbers(arena.flat), bytes = readBytes(arena.flat);
  const moved = atOtherWeights(arena, () => toNumbers(arena.flat));
  const apart = arena.parameters.map(({ numel }, k) => {
    const first = arena.starts[k], value = moved.subarray(first, first + numel);
    return value.filter((value, i) => {
      const old = before[first + i], by = Math.abs(value - old);
      assert(by <= (old === 0 ? 0.01 : Math.abs(old) / 16), `${value}`);
      return value !== 0 && by > 0;
    }).length / numel;
  });
  // A large weight whose numbers were drawn hides nothing; in the first one there is a zero.
  assertEquals(arena.names.filter((_, k) => apart[k] !== 1), ["2.weight"]);
  assertEquals(apart.filter((part) => part !== 1), [0]);
  assertEquals(readBytes(arena.flat), bytes);
  assertThrows(() => atOtherWeights(arena, () => assert(false)));
  assertEquals(readBytes(arena.flat), bytes);
});
