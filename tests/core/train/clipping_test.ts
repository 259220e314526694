// What changes gradients before the update, beside torch's and timm's own functions.
import { assert, assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import { UserError } from "../../../core/base/errors.ts";
import { openChangeGradients } from "../../../core/train/clipping.ts";
import type { Trainer } from "../../../core/train/trainer.ts";
import { manualSeed, setThreads } from "../../../ffi/context.ts";
import { toNumbers } from "../../../ffi/make.ts";
import { copy_, randn } from "../../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import { inFolder } from "../checkpoint/python.ts";
import { peer } from "./peer.ts";
import { open } from "./rig.ts";
import { contents, started, trained } from "./started.ts";

open();
setThreads(1);

const flags = (text: string) => text.split(" ").filter(Boolean);
const CNN =
  "--data-type synthetic --model cosmo-cnn --width 4 --set model.image_size=16 --train-samples 70 " +
  "--val-samples 20 --batch-size 8 --scheduler constant --epochs 2 --lr 1e-2 ";
const GPT =
  "--model gpt --layers 2 --embed 16 --heads 2 --context 12 --dropout 0 --train-samples 40 --val-samples 8 " +
  "--batch-size 8 --scheduler constant --epochs 1 ";

const numbers = (t: Tensor) => [...toNumbers(t)];

/** Gives the run gradients, some of them long, and changes them. */
function changed(run: Trainer) {
  const { arena, model, changeGradients } = run;
  manualSeed(3n);
  arena.gradients.forEach((g) => scope(() => copy_(g, randn(g.shape))));
  const named = model.root.namedParameters().map(([name]) => arena.names.indexOf(name));
  const parameters = named.map((i) => ({
    shape: arena.parameters[i].shape,
    weights: numbers(arena.parameters[i]),
    gradient: numbers(arena.gradients[i]),
  }));
  changeGradients!(0);
  return {
    parameters,
    ours: named.map((i) => numbers(arena.gradients[i])),
    names: named.map((i) => arena.names[i]),
  };
}

for (
  const [title, more, asked] of [
    ["by value", "--clip-value 0.5", { value: 0.5 }],
    ["by the size of the weights, as timm's AGC", "--clip-adaptive 0.01", { adaptive: 0.01, head: "head.2" }],
    ["each group by its own norm", "--param-group ndim<2:clip_norm=0.5;ndim>=2:clip_norm=2", {
      groups: true,
    }],
    ["a group alone", "--param-group head:lr=1e-3,clip_norm=0.1 --clip-value 0.25", {
      value: 0.25,
      groups: "head",
    }],
  ] as const
) {
  Deno.test(
    `gradients are clipped ${title}`,
    inFolder(async (folder) => {
      await started(folder, flags(CNN + more), async (run) => {
        const { parameters, ours, names } = changed(run);
        const among = (fits: (i: number) => boolean) => [...names.keys()].filter(fits);
        const of = "groups" in asked ? asked.groups : null;
        const groups = of === true
          ? [[among((i) => parameters[i].shape.length < 2), 0.5], [
            among((i) => parameters[i].shape.length > 1),
            2,
          ]]
          : of === null
          ? []
          : [[among((i) => names[i].startsWith(of)), 0.1]];
        // The program clips groups first.
        const cases = [
          { parameters, groups },
          {
            parameters,
            ...asked,
            groups: [],
            head: "head" in asked ? among((i) => names[i].startsWith(asked.head)) : [],
          },
        ];
        const [first] = await peer<number[][][]>("clipping.py", [cases[0]]);
        const between = parameters.map((one, i) => ({ ...one, gradient: first[i] }));
        const [theirs] = await peer<number[][][]>("clipping.py", [{ ...cases[1], parameters: between }]);
        assert(JSON.stringify(theirs) !== JSON.stringify(parameters.map(({ gradient }) => gradient)));
        ours.forEach((gradient, i) =>
          gradient.forEach((value, at) =>
            assertAlmostEquals(value, theirs[i][at], 1e-6 * Math.max(1, Math.abs(value)))
          )
        );
      });
    }),
  );
}

Deno.test(
  "noise has the variance of its step, is drawn by seed and step, and begins from no draw before",
  inFolder(async (folder) => {
    await started(folder, flags(`${GPT}--gradient-noise 0.3`), (run) => {
      const { arena, changeGradients } = run;
      const drawn = (step: number) => {
        arena.gradients.forEach((g) => scope(() => copy_(g, keep(randn(g.shape)))));
        const before = numbers(arena.gradient);
        changeGradients!(step);
        return numbers(arena.gradient).map((value, i) => value - before[i]).filter((value) => value !== 0);
      };
      const variance = (values: number[]) => values.reduce((sum, x) => sum + x * x, 0) / values.length;
      const [first, late, again] = [drawn(0), drawn(99), drawn(0)];
      assert(first.length > 5000, String(first.length));
      assertAlmostEquals(variance(first) / 0.3, 1, 0.05);
      assertAlmostEquals(variance(late) / (0.3 / 100 ** 0.55), 1, 0.05);
      assert(Math.max(...first.map((value, i) => Math.abs(value - again[i]))) < 1e-5);
    });
  }),
);

Deno.test(
  "a run with noise and clipping that is stopped and goes on has the bits of one that was not",
  inFolder(async (folder) => {
    const way = `${GPT}--gradient-noise 0.01 --clip-adaptive 0.02 --clip-value 0.1 --clip-norm 1 `;
    const run = (name: string, most: number, from?: string) =>
      trained(`${folder}/${name}`, flags(`${way}--max-steps ${most}`), from);
    const whole = await run("whole", 5), half = await run("half", 2), rest = await run("rest", 5, half.path);
    const state = (path: string) => [...contents(path)].filter(([place]) => /_state_dict/.test(place));
    assertEquals(state(rest.path), state(whole.path));
  }),
);

Deno.test(
  "nothing is changed where no setting asks for it",
  inFolder(async (folder) => {
    await started(
      folder,
      flags(`${GPT}--clip-norm 1`),
      ({ changeGradients }) => assertEquals(changeGradients, null),
    );
    await started(
      folder,
      flags(GPT),
      ({ arena }) => assertEquals(arena.direct, false, "steps may be compiled"),
    );
    await started(folder, flags(`${GPT}--no-compile`), ({ arena }) => assertEquals(arena.direct, true));
  }),
);

Deno.test(
  "what reads whole gradients is refused with parts of them",
  inFolder(async (folder) => {
    for (const more of ["--clip-adaptive 0.01", "--param-group biases:clip_norm=1"]) {
      await started(folder, flags(GPT + more), async ({ config, model, arena, optimizer, gradients }) => {
        const error = await assertRejects(
          async () =>
            await openChangeGradients({
              config,
              model,
              arena,
              optimizer,
              updated: gradients.updated,
              places: [0],
            }),
          UserError,
        );
        assert(/--zero 1 a rank has parts/.test(error.message), error.message);
      });
    }
  }),
);
