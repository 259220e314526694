// What a user's file exports and what it returns, judged before anything is trained with it.
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../core/base/errors.ts";
import type { Facts } from "../../../../core/models/model.ts";
import { userData } from "../../../../core/data/user/data.ts";
import { openUserFile, type UserFile } from "../../../../core/models/user/file.ts";
import { userLoss, userMetrics, userModel } from "../../../../core/models/user/made.ts";
import { resolveSettings } from "../../../../core/settings/resolve.ts";
import { batchOf, plainPart } from "../../../../core/data/source/source.ts";
import * as library from "../../../../mod.ts";
import { inTemp } from "../../../integration/program.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();
const { scope, tensor, toNumbers } = library;
const FACTS: Facts = { task: "regression", input: { shape: [2], dtype: "f32" }, outputs: 1 };
const { config } = resolveSettings({ argv: [], env: {} });

async function opened(text: string, body: (file: UserFile) => void): Promise<void> {
  await inTemp(async (folder) => {
    const path = join(folder, "own.ts");
    Deno.writeTextFileSync(path, text);
    body(await openUserFile(path, "model", { ...library }, "LIKE THIS."));
  });
}

const modelOf = (file: UserFile) => userModel(file, FACTS, 1, config.model);

const NO_MODULE: readonly (readonly [string, string])[] = [
  ["export const a = 1, b = 2;", "it exports a, b and no default. LIKE THIS."],
  ["export {};", "it exports nothing. LIKE THIS."],
  ["export default { layers: 3 };", sentenceNamed("core/models/user/export: default export object")],
];
for (const [text, said] of NO_MODULE) {
  Deno.test(`a file is refused where ${said.replace(" LIKE THIS.", "")}`, async () => {
    const { message } = await assertRejects(() => opened(text, () => {}), UserError);
    assertSentence("core/models/user/export: own should export", message, { said });
  });
}

const NO_MODEL: readonly (readonly [string, string, string])[] = [
  ["a number", "export default () => 3;", sentenceNamed("core/models/user/export: function returned number")],
  ["a Promise", "export default async ({ nn }) => new nn.Linear(2, 1);", "is async, and it must not be"],
  [
    "no forward",
    "export default ({ nn }) => new (class Bare extends nn.Module {})();",
    "the class Bare has no forward(x).",
  ],
  [
    "a class",
    "export default class Net {};",
    sentenceNamed("core/models/user/export: default export class"),
  ],
  [
    "two tensors of one name",
    'export default ({ nn }) => new (class Net extends nn.Module { a = this.child("l", new nn.Linear(2, 1)); ' +
    'b = this.child("l", new nn.Linear(2, 1)); forward(x) { return x; } })();',
    "two tensors of the model are called l.weight",
  ],
  ["an exception that is no Error", "export default () => { throw 'boo'; };", 'it has thrown "boo"'],
  [
    "no parameters",
    "export default ({ nn }) => new (class extends nn.Module { forward(x) { return x; } })();",
    "this model has no parameters.",
  ],
];
for (const [what, text, said] of NO_MODEL) {
  Deno.test(`a model's function that gives ${what} is told so`, () =>
    opened(text, (file) => assertStringIncludes(assertThrows(() => modelOf(file), UserError).message, said)));
}

Deno.test("a module's parameters have the names that it gave them, and several blocks are a model too", async () => {
  const parts = (block: string) =>
    `export default ({ nn, model, block }) => {
      class Net extends nn.Module { a = this.child("a", new nn.Linear(2, 3)); b = this.child("b", new nn.Linear(3, 1));
        forward(x) { return this.b.forward(this.a.forward(x)); } }
      const net = new Net();
      return ${block};
    };`;
  const blocks =
    'model("two", net, [block("a", net.a, (x) => net.a.forward(x)), block("b", net.b, (x) => net.b.forward(x))], { layers: "2-3-1" })';
  for (const [made, count] of [["net", 1], [blocks, 2]] as const) {
    await opened(parts(made), (file) => {
      const model = modelOf(file);
      assertEquals(model.root.namedParameters().map(([name]) => name), [
        "a.weight",
        "a.bias",
        "b.weight",
        "b.bias",
      ]);
      assertEquals(model.blocks.length, count);
      model.root.free();
    });
  }
});

Deno.test("a loss and metrics are the mean over a batch, and anything but one number is refused", async () => {
  await opened(
    "export default ({ ops }) => (a, b) => ops.mean(ops.abs(ops.sub(a, b)));",
    (file) =>
      scope(() => {
        const loss = userLoss(file, FACTS);
        const [a, b] = [tensor([1, 2, 3, 6], [4, 1]), tensor([1, 1, 1, 1], [4, 1])];
        assertEquals(loss.apply(a, b).item(), 2);
        assertEquals(loss.validCount(b), 4);
      }),
  );
  await opened("export default () => (a, b) => a;", (file) =>
    scope(() => {
      const a = tensor([1, 2], [2, 1]);
      const { message } = assertThrows(() => userLoss(file, FACTS).apply(a, a), UserError);
      assertSentence("core/models/user/export: own loss gave", message);
    }));
  await opened(
    "export default ({ ops }) => ({ most: (a) => ops.maxValue(a), least: (a) => ops.minValue(a) });",
    (file) =>
      scope(() => {
        const metrics = userMetrics(file, FACTS);
        assertEquals(metrics.names, ["most", "least"]);
        const a = tensor([1, 2, 3, 6], [4, 1]);
        assertEquals([...toNumbers(metrics.sums(a, a))], [24, 4]); // each weighs as many as there are samples
      }),
  );
});

Deno.test("data as tensors and data read as it is asked for are the same samples", async () => {
  const task = 'task: "regression", outputs: 1';
  const held =
    `export default ({ tensor }) => ({ ${task}, train: { input: tensor([1, 2, 3], [3, 1]), target: tensor([2, 4, 6], [3, 1]) } });`;
  const read = `export default ({ tensor }) => ({ ${task}, train: { length: 3, batch: (ids) => ({
    input: tensor(ids.map((i) => i + 1), [ids.length, 1]), target: tensor(ids.map((i) => 2 * i + 2), [ids.length, 1]) }) } });`;
  for (const text of [held, read]) {
    await opened(text, (file) => {
      const { train, val } = userData(file, config.data, 0);
      assertEquals([train.length, val], [3, null]);
      scope(() => {
        const { input, target } = batchOf(train, plainPart([2, 0]));
        assertEquals([[...toNumbers(input)], [...toNumbers(target)]], [[3, 1], [6, 2]]);
      });
    });
  }
});

Deno.test("what forward returns must be a tensor", () =>
  opened(
    'export default ({ nn }) => new (class Net extends nn.Module { a = this.child("l", new nn.Linear(2, 1)); forward(x) { return [x]; } })();',
    (file) => {
      const { message } = assertThrows(
        () => library.forward(modelOf(file), tensor([1, 2], [1, 2])),
        UserError,
      );
      assertSentence("core/models/user/export: forward net returned", message);
    },
  ));

const NO_DATA: readonly (readonly [string, string])[] = [
  [
    '({ task: "guessing", outputs: 1, train: {} })',
    'its task is the string "guessing" and should be one of classification',
  ],
  [
    '({ task: "regression", outputs: 1.5, train: {} })',
    "its outputs are the number 1.5 and should be a whole number",
  ],
  [
    '({ task: "regression", outputs: 1, train: { input: [1], target: [2] } })',
    "they are a list of 1 and a list of 1.",
  ],
  [
    '({ task: "regression", outputs: 1, train: { length: 0, batch() {} } })',
    "train.length is the number 0, and should be the number of samples, at most 2147483647.",
  ],
  ["4", "the function returned the number 4, and not data."],
  ['({ task: "regression", outputs: 1, train: 5 })', "train is the number 5, and not samples."],
  [
    '({ task: "regression", outputs: 1, train: { length: 3, batch: 5 } })',
    "train.batch is the number 5, and should be a function of (ids, epoch).",
  ],
  [
    '({ task: "classification", outputs: 3, train: { input: tensor([1, 2], [2, 1]), target: tensor([0, 1]) } })',
    "train.target is f32, and classes are whole numbers",
  ],
  [
    '({ task: "classification", outputs: 3, train: { input: tensor([1, 2], [2, 1]), target: tensor(new BigInt64Array([0n, 3n])) } })',
    "train.target has the class 3, and outputs is 3",
  ],
  [
    '({ task: "regression", outputs: 1, train: { input: tensor([1], [1, 1]), target: tensor([1], [1, 1]) }, ' +
    "val: { input: tensor([1, 2], [1, 2]), target: tensor([1], [1, 1]) } })",
    "a sample's input is f32[1] in train and f32[2] in val",
  ],
];
for (const [made, said] of NO_DATA) {
  Deno.test(`data is refused where ${said}`, () =>
    opened(`export default ({ tensor }) => (${made});`, (file) => {
      assertStringIncludes(assertThrows(() => userData(file, config.data, 0), UserError).message, said);
    }));
}

Deno.test("rows that are not those asked for are told", () =>
  opened(
    'export default ({ tensor }) => ({ task: "regression", outputs: 1, train: { length: 4, batch: () => ({ input: tensor([1], [1, 1]), target: tensor([1], [1, 1]) }) } });',
    (file) => {
      const said = assertThrows(() =>
        scope(() => {
          const { train } = userData(file, config.data, 0);
          train.raw(plainPart([0, 1]));
        }), UserError).message;
      assertSentence("core/models/user/export: own train batch", said);
    },
  ));
