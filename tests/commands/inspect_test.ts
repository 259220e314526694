// `hpctrain inspect` as a user sees it.
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { inspect } from "../../commands/run/inspect.ts";
import { writePt } from "../../core/checkpoint/pt.ts";
import { dict, memoryStorage, OrderedDict, TensorData } from "../../core/checkpoint/value.ts";
import { UserError } from "../../core/base/errors.ts";
import { inFolder } from "../core/checkpoint/python.ts";
import { printed } from "./printed.ts";
import { sentenceNamed } from "../sentences.ts";

function checkpoint(path: string): void {
  const storage = memoryStorage(new Uint8Array(48));
  const weights = new OrderedDict([["fc.weight", new TensorData("f32", [3, 4], storage)], [
    "fc.\x1b[31mbias",
    new TensorData("bf16", [], memoryStorage(new Uint8Array(2))),
  ]]);
  const state = dict({
    "0": dict({ exp_avg: new TensorData("f32", [3, 4], memoryStorage(new Uint8Array(48))) }),
  });
  writePt(
    path,
    dict({
      epoch: 3,
      val_loss: NaN,
      config: dict({
        model: dict({ name: "mlp", layers: 2 }),
        output: dict({ quiet: false }),
        seeds: [1, 2],
      }),
      model_state_dict: weights,
      optimizer_state_dict: dict({ state, param_groups: [dict({ lr: 0.1, params: [0] })] }),
    }),
  );
}

Deno.test(
  "inspect prints keys, values, the weights and totals, and no escape codes out of the file",
  inFolder(async (folder) => {
    const path = `${folder}/a.pt`;
    checkpoint(path);
    const [code, text] = await printed(() => inspect([path]));
    assertEquals(code, 0);
    const lines = text.split("\n");
    assertEquals(lines.slice(1), [
      "  epoch: 3",
      "  val_loss: NaN",
      "  config (defaults left out, --json has all):",
      "    model:",
      "      name: mlp",
      "    seeds: [1,2]",
      "  optimizer_state_dict:",
      '    param_groups: [{"lr":0.1,"params":[0]}]',
      "  optimizer_state_dict: 1 tensor, 48 B (listed by --json)",
      "  model_state_dict.fc.weight        f32   [3, 4]        48 B",
      "  model_state_dict.fc.\\x1b[31mbias  bf16  []             2 B",
      "total: 3 tensors, 25 numbers, 98 B",
      sentenceNamed("commands/inspect: checksums those tensors"),
    ]);
  }),
);

Deno.test(
  "inspect --json lists every tensor for a program",
  inFolder(async (folder) => {
    const path = `${folder}/a.pt`;
    checkpoint(path);
    const [, text] = await printed(() => inspect([path, "--json", "--verify"]));
    const found = JSON.parse(text);
    assertEquals(found.tensors[2], {
      name: "optimizer_state_dict.state.0.exp_avg",
      dtype: "f32",
      shape: [3, 4],
      bytes: 48,
    });
    assertEquals([found.format, found.values.epoch, found.totals, found.verified], ["pt", 3, {
      tensors: 3,
      elements: 25,
      bytes: 98,
    }, true]);
  }),
);

Deno.test(
  "inspect --verify finds a byte that changed in the data",
  inFolder(async (folder) => {
    const path = `${folder}/a.pt`;
    checkpoint(path);
    assertStringIncludes(
      (await printed(() => inspect([path, "--verify"])))[1],
      "verified: every checksum is right",
    );
    const bytes = Deno.readFileSync(path);
    // The first storage: 48 zeros on a 64-byte boundary behind its name.
    const name = new TextDecoder("latin1").decode(bytes).indexOf("archive/data/0");
    bytes[Math.ceil(name / 64) * 64 + 5]++;
    Deno.writeFileSync(path, bytes);
    assertEquals((await printed(() => inspect([path])))[0], 0);
    const error = await assertRejects(
      () => inspect([path, "--verify"]),
      UserError,
      'the checksum of "archive/data/0" (model_state_dict.fc.weight) is wrong',
    );
    assertEquals(error.kind, "checkpoint");
  }),
);

Deno.test(
  "inspect of a folder of checkpoints asks for one of them",
  inFolder(async (folder) => {
    checkpoint(`${folder}/a.pt`);
    await assertRejects(() => inspect([folder]), UserError, "name the .pt or .safetensors file in it");
  }),
);

Deno.test("inspect refuses unknown flags and anything but one file", async () => {
  await assertRejects(() => inspect(["a.pt", "--jsn"]), UserError, 'Did you mean "--json"?');
  await assertRejects(() => inspect([]), UserError, "takes one file, but got 0");
});
