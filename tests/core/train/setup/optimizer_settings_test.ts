// Settings that an optimizer or a scheduler does not read: the help says whose they are, and a run that they were typed for.
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { UserError } from "../../../../core/base/errors.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { OPTIMIZER_READS } from "../../../../core/settings/sections/optimizer.ts";
import { findSetting } from "../../../../core/settings/settings.ts";
import { unreadSettings } from "../../../../core/train/setup/launch.ts";
import { createOptimizer } from "../../../../core/train/optimizers.ts";
import type { OptimizerSettings } from "../../../../core/train/optimizers/optimizer.ts";
import { packParameters } from "../../../../core/train/arena.ts";
import { Linear } from "../../../../core/models/nn/linear.ts";
import { settingsNotes } from "../../../../core/train/setup/launch.ts";
import { withFile } from "../../settings/helpers.ts";
import { assertSentence } from "../../../sentences.ts";
import { open, settings } from "../rig.ts";

open();

const resolved = (flags: string, env: Record<string, string> = {}) =>
  resolveSettings({ argv: flags === "" ? [] : flags.split(" "), env });
const said = (flags: string, env = {}) => unreadSettings(resolved(flags, env));

Deno.test("a typed setting that the optimizer does not read is told in one line, with what it reads", () => {
  const flags = "--optimizer sgd --set training.optimizer.beta1=0.8 --set training.optimizer.eps=1e-8";
  const [line, ...more] = said(flags);
  assertEquals(more, []);
  assertSentence("core/train/setup/optimizer_settings: no effect sgd", line);
  assertEquals(settingsNotes(resolved(flags), "cpu").filter((note) => note === line).length, 1);
  assertMatch(said("--momentum 0.8")[0], /--optimizer adamw,.* training\.optimizer\.momentum \(--momentum\)/);
});

Deno.test("a typed setting that the scheduler does not read is told, too", () => {
  const [line, ...more] = said("--min-lr 1e-5 --set training.scheduler.gamma=0.5 --scheduler step");
  assertEquals(more, []);
  assertSentence("core/train/setup/optimizer_settings: no effect step", line);
  assertEquals(said("--min-lr 1e-5 --scheduler constant").length, 1);
  assertEquals(said("--min-lr 1e-5 --scheduler onecycle"), []);
});

Deno.test("nothing is told of settings that are read, that nobody typed, or that a file repeats", () => {
  assertEquals(said(""), []);
  assertEquals(said("--optimizer sgd --momentum 0.8 --nesterov --weight-decay 0"), []);
  assertEquals(said("--optimizer lion --set training.optimizer.beta1=0.8"), []);
  const text = (beta: number) => `training: { optimizer: { type: sgd, beta1: ${beta} } }\n`;
  assertEquals(withFile(text(0.9), (path) => said(`--config ${path}`)), []);
  assertEquals(withFile(text(0.8), (path) => said(`--config ${path}`)).length, 1);
});

Deno.test("steps to look at have no effect where no profile is asked for, and that is told", () => {
  const [line, ...more] = settingsNotes(resolved("--data-path x.csv --profile-steps 3-5"), "cpu");
  assertEquals(more, []);
  assertMatch(line, /^No effect without --profile-training: training\.profile_steps \(--profile-steps\)\.$/);
  const asked = "--data-path x.csv --profile-training --profile-steps 3-5";
  assertEquals(settingsNotes(resolved(asked), "cpu"), []);
});

Deno.test("the help of a setting names the optimizers that read it, or those that don't", () => {
  const helpOf = (name: string) => findSetting(`training.optimizer.${name}`)!.setting.help;
  assertMatch(helpOf("beta1"), /\(all but sgd, adadelta,.* and rprop\)/);
  assertMatch(helpOf("weight_decay"), /\(all but lbfgs .*rprop\), 0 for .*prodigy/);
  assertMatch(helpOf("amsgrad"), /\(adamw and adam\)$/);
  assertMatch(helpOf("nesterov"), /\(sgd and shampoo\)$/);
  assertMatch(helpOf("lion_beta2"), /\(lion\)$/);
  assertMatch(
    findSetting("training.scheduler.min_lr")!.setting.help,
    /\(cosine, linear, onecycle, .* and wsd\)$/,
  );
});

Deno.test("an optimizer of torch.optim's has its own defaults there, unless somebody gives another value", () => {
  const of = (flags: string) => resolved(flags).config.training.optimizer;
  const { learning_rate, momentum, alpha, weight_decay, eps } = of("--optimizer rmsprop");
  assertEquals([learning_rate, momentum, alpha, weight_decay, eps], [0.01, 0, 0.99, 0, 1e-8]);
  assertEquals([of("--optimizer asgd").alpha, of("--optimizer adagrad").eps], [0.75, 1e-10]);
  assertEquals(of("--optimizer rmsprop --momentum 0.9 --lr 3e-4").momentum, 0.9);
  assertEquals(of("--optimizer rmsprop --lr 3e-4").learning_rate, 3e-4);
  assertEquals(
    of("--preset debug --optimizer adadelta").learning_rate,
    1,
    "a preset's rate is for its own optimizer",
  );
  assertEquals(of("--preset debug --optimizer sgd").learning_rate, 1e-3);
  assertEquals(resolved("--optimizer rmsprop").origin("training.optimizer.momentum").kind, "default");
  withFile(
    "training: { optimizer: { type: rprop, learning_rate: 0.5 } }\n",
    (path) => assertEquals(of(`--config ${path}`).learning_rate, 0.5),
  );
});

Deno.test("what is not here is refused by its name, with what does the same", () => {
  for (const name of ["SparseAdam", "sparse_adam"]) {
    assertThrows(() => resolved(`--optimizer ${name}`), UserError, "take adam");
  }
});

Deno.test("an optimizer reads the settings that are declared for it, and no others", () => {
  for (const type of Object.keys(OPTIMIZER_READS) as OptimizerSettings["type"][]) {
    const asked = new Set<string>();
    const given = new Proxy({ ...settings().training.optimizer, type }, {
      get: (all, name) => {
        asked.add(String(name));
        return Reflect.get(all, name);
      },
    });
    const root = new Linear(2, 2);
    const optimizer = createOptimizer(given, packParameters(root.namedParameters(), "cpu"), root);
    optimizer.step(1e-3, null, null, { loss: 1, again: () => 1, read: (number) => number.item() });
    asked.delete("type");
    assertEquals([...asked].sort(), [...OPTIMIZER_READS[type]].sort(), type);
  }
});
