// What auto comes to, by the model, the loss, the data and the checkpoint that begins.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { memorySource } from "../../../../core/data/source/memory.ts";
import { type Source, source } from "../../../../core/data/source/source.ts";
import {
  chooseScale,
  oddScales,
  type SavedScale,
  type ScaleRequest,
} from "../../../../core/data/transforms/scale_choice.ts";
import { add, scalar, tensor } from "../../../../ffi/make.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { indexSelect, mul, randn } from "../../../../ffi/ops.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { open, settings } from "../../train/rig.ts";
import { sentenceNamed } from "../../../sentences.ts";

open();
manualSeed(3n);

const COUNT = 5000;
const ofNumbers = (more: Partial<Parameters<typeof memorySource>[0]> = {}) =>
  memorySource({
    ...{ name: "made", task: "regression", outputs: 1, description: "", names: ["y"] },
    ...{ input: randn([COUNT, 2]), target: randn([COUNT, 1]), ...more },
  });
const FRESH: ScaleRequest = { loss: "auto", byDefault: true, saved: null };
const chosen = (flags: string[] = [], train: Source = ofNumbers(), request: Partial<ScaleRequest> = {}) =>
  chooseScale(settings(...flags).data, train, { ...FRESH, ...request });
const choice = (...given: Parameters<typeof chosen>) => {
  const { normalise, normalise_targets } = chosen(...given).choice;
  return `${normalise} ${normalise_targets}`;
};

Deno.test("a regression of files by a built-in model has inputs and targets scaled, and one line says so", () => {
  for (const loss of ["auto", "mse", "l1", "huber", "gaussian_nll", "quantile"]) {
    assertEquals(choice([], ofNumbers(), { loss }), "measured on", loss);
  }
  assertEquals(chosen().notes, [
    sentenceNamed("core/data/transforms/scale_choice: inputs targets scaled"),
  ]);
});

Deno.test("what is no such regression is left as it was: other losses, classes, tokens, known figures, models of one's own", () => {
  const left = "usual off";
  for (const loss of ["bce", "crps", "spectral", "graph", "own.ts"]) {
    assertEquals(choice([], ofNumbers(), { loss }), left, loss);
  }
  assertEquals(choice([], ofNumbers(), { byDefault: false }), left);
  const classes = { task: "classification", outputs: 3, target: tensor(new BigInt64Array(COUNT)) } as const;
  assertEquals(choice([], ofNumbers(classes)), left);
  assertEquals(choice([], ofNumbers({ usual: { mean: [0.5], std: [0.2] } })), left);
  assertEquals(choice([], ofNumbers({ units: { mean: [0.3], std: [0.1] } })), left);
  assertEquals(choice([], ofNumbers({ targetless: true })), left);
  const whole = ofNumbers({ input: tensor(new BigInt64Array(2 * COUNT), [COUNT, 2]) });
  assertEquals(choice([], whole), left);
  assertEquals(chosen([], ofNumbers(), { byDefault: false }).notes, []);
});

Deno.test("what is typed wins: off is none, and turns off targets that nobody asked for", () => {
  assertEquals(choice(["--normalise", "off"]), "none off");
  assertEquals(choice(["--normalise", "none"]), "none off");
  assertEquals(choice(["--normalise", "off", "--normalise-targets"]), "none on");
  assertEquals(choice(["--no-normalise-targets"]), "measured off");
  assertEquals(choice(["--normalise", "measured", "--set", "data.normalise_targets=false"]), "measured off");
  assertEquals(choice(["--normalise-targets"], ofNumbers(), { byDefault: false }), "usual on");
  assertEquals(choice(["--mean", "1", "--std", "2"]), "usual on");
  assertEquals(choice(["--rollout", "2", "--lead", "1"]), "measured off");
});

Deno.test("a checkpoint has what auto came to; before there was a choice, it came to what is usual", () => {
  const of = (data: unknown, ...argv: string[]) => {
    const { config } = resolveSettings({ argv, env: {}, checkpoint: { data } });
    return `${config.data.normalise} ${config.data.normalise_targets}`;
  };
  assertEquals(of({ normalise: "auto", normalise_targets: false }), "usual off");
  assertEquals(of({ normalise: "auto", normalise_targets: true }), "usual on");
  assertEquals(of({}), "usual off");
  assertEquals(of({ normalise: "measured", normalise_targets: "on" }), "measured on");
  const again = ["--normalise", "auto", "--set", "data.normalise_targets=auto"]; // as a file of settings may say
  assertEquals(of({ normalise: "measured", normalise_targets: "on" }, ...again), "measured on");
  assertEquals(of({ normalise: "auto", normalise_targets: false }, ...again), "usual off");
});

Deno.test("a run that goes on and new weights from a checkpoint have its numbers, to the last digit, where they fit", () => {
  const numbers = { mean: [1 / 3, 280.123456789], std: [0.1, 15.000000001] };
  const saved = (goesOn: boolean): SavedScale => ({
    ...{ normalise: "measured", normalise_targets: "on", goesOn },
    ...{ normalisation: numbers, targetScale: { mean: [2 / 3], std: [7] } },
  });
  const typed = ["--normalise", "measured", "--normalise-targets"];
  const { data } = chosen(typed, ofNumbers(), { byDefault: false, saved: saved(true) });
  assertEquals([data.mean, data.std, data.target_mean, data.target_std].map((list) => list.map(Number)), [
    ...[numbers.mean, numbers.std, [2 / 3], [7]],
  ]);
  // Who types it for other weights' data wants its own measures.
  assertEquals(chosen(typed, ofNumbers(), { byDefault: false, saved: saved(false) }).data.mean, []);
  const taken = chosen([], ofNumbers(), { byDefault: false, saved: saved(false) });
  assertEquals(taken.data.mean.map(Number), numbers.mean);
  assertEquals(taken.notes, [
    sentenceNamed("core/data/transforms/scale_choice: inputs targets scaled checkpoint"),
  ]);
  const other = ofNumbers({ input: randn([COUNT, 3]), target: randn([COUNT, 2]), outputs: 2 });
  assertEquals(choice([], other, { byDefault: false, saved: saved(false) }), "usual off");
});

Deno.test("inputs and targets of an odd scale are named with their flag, by a look at the first samples alone", () => {
  const rows = new Set<number>();
  const table = (input: (at: number) => number, target: (at: number) => number) => {
    const made = [input, target].map((of) => mul(add(randn([COUNT, 1]), scalar(of(0))), scalar(of(1))));
    return source({
      ...{ name: "t.csv", length: COUNT, task: "regression", outputs: 1, description: "", names: ["later"] },
      raw(ids) {
        ids.forEach((id) => rows.add(id));
        const at = tensor(BigInt64Array.from(ids, BigInt));
        return { input: indexSelect(made[0], 0, at), target: indexSelect(made[1], 0, at) };
      },
    });
  };
  const both = { inputs: true, targets: true, features: ["t"] };
  const plain = (at: number) => [0, 1][at], far = (at: number) => [20, 15][at];
  assertEquals(oddScales(table(plain, plain), both), []);
  const [input, target, ...more] = oddScales(table(far, far), both);
  assertEquals(more, []);
  assertMatch(input, /^Input t of t\.csv has mean (29|30)\d and deviation 1[45]/);
  assertStringIncludes(input, "--normalise measured");
  assertStringIncludes(target, "Target later of t.csv");
  assertStringIncludes(target, "--normalise-targets");
  assert(rows.size <= 1000 && Math.max(...rows) < 1000, `${rows.size}`);
  for (const [centre, spread] of [[0, 110], [0, 0.009], [10.9, 1], [-10.9, 1]]) {
    const odd = oddScales(table(plain, (at) => [centre, spread][at]), both);
    assertEquals(odd.length, 1, `${centre} ${spread}`);
  }
  for (const [centre, spread] of [[0, 90], [0, 0.011], [9, 1], [7, 0]]) {
    assertEquals(oddScales(table(plain, (at) => [centre, spread][at]), both), [], `${centre} ${spread}`);
  }
  assertEquals(oddScales(table(far, far), { ...both, inputs: false, targets: false }), []);
});
