// Optimizers of the user's own, in TypeScript: beside torch.optim's and the built-in ones, on the ways that a run has, and bad ones.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { noteUserFile, openUserFile } from "../../../../core/models/user/file.ts";
import { template } from "../../../../core/models/user/templates.ts";
import { mlp } from "../../../../core/models/zoo/mlp.ts";
import { refuseZero } from "../../../../core/train/gradients/zero.ts";
import * as library from "../../../../mod.ts";
import { manualSeed } from "../../../../ffi/context.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { randn } from "../../../../ffi/ops.ts";
import { keep, type Tensor } from "../../../../ffi/tensor.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { peer } from "../peer.ts";
import { open, rig, rows, run, settings, weights } from "../rig.ts";
import { contents, trained } from "../started.ts";

open();
library.ops.op("addcmul"); // what a name is looked up in stays open

const STEPS = 100;

/** torch's SGD, in its order. */
const MOMENTUM = `export default ({ ops, settings }) => ({
  slots: ["momentum_buffer"],
  perElement: true,
  update({ parameter, gradient, state, step, lr, weightDecay }) {
    const own = weightDecay === 0 ? gradient : ops.sub(gradient, parameter, -weightDecay);
    const velocity = step === 1 ? own : ops.add(ops.mul(state.momentum_buffer, settings.momentum), own);
    return { parameter: ops.sub(parameter, velocity, lr), momentum_buffer: velocity };
  },
});
`;
/** Whole parameters, and a slot that is changed in place. */
const WHOLE = MOMENTUM.replace("perElement: true,", "").replace(
  "const velocity =",
  "const velocity = step > 1 ? ops.copy_(state.momentum_buffer, ops.add(ops.mul(state.momentum_buffer, settings.momentum), own)) :",
).replace("momentum_buffer: velocity", "...(step === 1 && { momentum_buffer: velocity })");
/** The built-in one's operations. */
const ADAGRAD = `export default ({ ops, settings }) => ({
  slots: ["sum"],
  perElement: true,
  update({ parameter, gradient, state, lr, weightDecay }) {
    const own = weightDecay === 0 ? gradient : ops.sub(gradient, parameter, -weightDecay);
    const sum = ops.op("addcmul")(state.sum, own, own);
    return { parameter: ops.op("addcdiv")(parameter, own, ops.add(ops.sqrt(sum), settings.eps), { value: -lr }), sum };
  },
});
`;

async function written(folder: string, name: string, text: string): Promise<string> {
  const path = `${folder}/${name}.ts`;
  Deno.writeTextFileSync(path, text);
  noteUserFile(await openUserFile(path, "optimizer", { ...library }, "LIKE THIS."));
  return path;
}

function made(flags: readonly string[], direct = false) {
  manualSeed(1n);
  const model = mlp({ inputs: 7, hidden: 37, layers: 2, outputs: 1 });
  manualSeed(2n);
  const batch = { input: keep(randn([32, 7])), target: keep(randn([32, 1])) };
  return { rig: rig(model, rows, { flags, direct }), batch };
}

const RATES = Array.from({ length: STEPS }, (_, i) => 0.01 * (1 + (i % 3) / 10));

Deno.test(
  `AdamW as hpctrain new writes it, and SGD with momentum, have torch.optim's bits for ${STEPS} steps`,
  inFolder(async (folder) => {
    const sgd = { type: "SGD", options: { momentum: 0.9, weight_decay: 0.1, fused: false }, rates: RATES };
    const cases = [
      ["adamw", template("optimizer", "my.ts"), {
        ...sgd,
        type: "AdamW",
        options: { weight_decay: 0.1, fused: false },
      }],
      ["sgd", MOMENTUM, sgd],
      ["whole", WHOLE, sgd],
    ] as const;
    const theirs = await peer<{ losses: number[]; weights: string[] }[]>(
      "optimizers.py",
      cases.map(([, , one]) => one),
    );
    for (const [i, [name, text]] of cases.entries()) {
      const path = await written(folder, name, text);
      for (const direct of [false, true]) {
        const { rig, batch } = made(["--optimizer", path, "--weight-decay", "0.1"], direct);
        assertEquals(
          RATES.map((lr, number) => run(rig, [batch], { number, lr }).loss),
          theirs[i].losses,
          name,
        );
        assertEquals(await weights(rig), theirs[i].weights, name);
      }
    }
  }),
);

Deno.test(
  "one's own and the built-in one have the same bits with groups, stops, compiled steps and autograd's gradients",
  inFolder(async (folder) => {
    const own = await written(folder, "own", ADAGRAD);
    const flags = (
      "--data-type synthetic --model mlp --train-samples 200 --val-samples 20 --batch-size 10 --epochs 5 --lr 0.01 " +
      "--scheduler sgdr --weight-decay 0.1 --set training.optimizer.eps=1e-10"
    ).split(" ");
    const groups = ["--param-group", "biases: lr=0.02, weight_decay=0"];
    const go = (name: string, type: string, more: readonly string[], resume: string | null = null) =>
      trained(`${folder}/${name}`, [...flags, "--optimizer", type, ...more], resume);
    const state = ({ path }: { readonly path: string }) =>
      [...contents(path)].filter(([name]) => /state_dict\/(?!param_groups)/.test(name));
    for (const more of [groups, []]) {
      const builtIn = await go(`builtin-${more.length}`, "adagrad", more);
      const straight = await go(`own-${more.length}`, own, [...more, "--compile=exact"]);
      const first = await go(`first-${more.length}`, own, [...more, "--max-steps", "47"]);
      const last = await go(`last-${more.length}`, own, more, first.path);
      assert(state(builtIn).length > 12, "weights and state");
      assertEquals(contents(builtIn.path).get("/hpctrain/optimizer_steps"), String(STEPS));
      assertEquals(state(straight), state(builtIn));
      assertEquals(state(last), state(builtIn));
      const rates = (path: string) =>
        [...contents(path)].filter(([name]) => /param_groups.*\/(lr|weight_decay)$/.test(name));
      assertEquals(rates(last.path), rates(builtIn.path));
    }
  }),
);

Deno.test(
  "a slot may be given the parameter as it was, and another slot",
  inFolder(async (folder) => {
    const path = await written(
      folder,
      "before",
      `export default ({ ops }) => ({
        slots: ["latest", "before", "earlier"],
        perElement: true,
        update: ({ parameter, gradient, state, lr }) => ({
          parameter: ops.sub(parameter, gradient, lr),
          latest: gradient,
          before: parameter,
          earlier: state.latest,
        }),
      });`,
    );
    const { rig, batch } = made(["--optimizer", path]), numbers = (t: Tensor) => [...toNumbers(t)];
    run(rig, [batch]);
    const { slots } = rig.step.optimizer, [latest, before, earlier] = [...slots.values()].map(([t]) => t);
    const weights = numbers(rig.arena.parameters[0]), gradient = numbers(latest);
    run(rig, [batch]);
    assertEquals([numbers(before), numbers(earlier)], [weights, gradient]);
  }),
);

/** What stands in the file, and a word of what is said of it. */
const BAD: readonly (readonly [string, string, RegExp])[] = [
  ["nothing", "export default () => {};", /undefined, and not an optimizer with update/],
  [
    "a slot named step",
    MOMENTUM.replaceAll("momentum_buffer", "step_").replaceAll("step_", "step").replace("step: velocity", ""),
    /slot is called step/,
  ],
  [
    "a slot named twice",
    MOMENTUM.replace('["momentum_buffer"]', '["m", "m"]'),
    /slot is called m, and so is another/,
  ],
  ["a slot that is no name", MOMENTUM.replace('["momentum_buffer"]', '"m"'), /slots is the string "m"/],
  [
    "another shape",
    MOMENTUM.replace("momentum_buffer: velocity", "momentum_buffer: ops.sum(velocity)"),
    /returned a tensor of \[\] as momentum_buffer, which is a tensor of \[12\]/,
  ],
  [
    "nothing from its update",
    MOMENTUM.replace("return {", "const made = {"),
    /returned undefined: it should return \{ parameter, momentum_buffer \}/,
  ],
  [
    "a tensor from its update",
    WHOLE.replace("return {", "return parameter; ({").replace("}),\n    };", "").replace(
      "};\n  },",
      "});\n  },",
    ),
    /of 0\.weight returned a tensor/,
  ],
  [
    "what is no slot",
    MOMENTUM.replace("momentum_buffer: velocity", "velocity"),
    /returned velocity, which is neither/,
  ],
  [
    "a norm of all numbers",
    MOMENTUM.replace("velocity, lr)", "ops.div(velocity, ops.sum(ops.abs(velocity))), lr)"),
    /two halves of a vector have other updates/,
  ],
  [
    "not a number",
    WHOLE.replace("velocity, lr)", "ops.sqrt(ops.sub(ops.mul(velocity, 0), 1)), lr)"),
    /after step 1 the parameter 0\.weight is not finite/,
  ],
  ["a thrown text", WHOLE.replace("const own", 'throw "tired"; const own'), /it has thrown "tired"/],
];

for (const [title, text, words] of BAD) {
  Deno.test(
    `an optimizer's file with ${title} is refused in a sentence`,
    inFolder(async (folder) => {
      const path = await written(folder, "bad", text);
      const error = assertThrows(() => {
        const { rig, batch } = made(["--optimizer", path]);
        run(rig, [batch]);
      }, UserError);
      assert(words.test(error.message) && error.message.includes(path), error.message);
    }),
  );
}

Deno.test(
  "--zero 1 takes an update of single numbers, and says what an update of whole parameters lacks",
  inFolder(async (folder) => {
    const [single, whole] = [
      await written(folder, "single", MOMENTUM),
      await written(folder, "whole", WHOLE),
    ];
    refuseZero(settings("--zero", "1", "--optimizer", single));
    assertThrows(
      () => refuseZero(settings("--zero", "1", "--optimizer", whole)),
      UserError,
      "perElement: true",
    );
  }),
);
