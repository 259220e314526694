// data.type -> sources, and the sentences for types that are not there.
import { DATA_KIND_NAMES } from "../../../../core/settings/formats.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import type { Config } from "../../../../core/settings/settings.ts";
import { openData } from "../../../../core/data/open/open.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { settings } from "../tables/help.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();

function open(data: Record<string, unknown>, model: Partial<Config["model"]> = {}) {
  const config = settings({
    data: { train_samples: 50, val_samples: 10, ...data } as Partial<Config["data"]>,
    model,
  });
  return openData(config.data, config.training, config.model);
}

function refused(data: Record<string, unknown>): UserError {
  return assertThrows(() => open(data), UserError);
}

Deno.test("auto without a path is synthetic, with the numbers of samples asked for", () => {
  const { train, val, notes, orders } = open({});
  assertEquals([train.name, train.length, val!.length], ["synthetic vectors", 50, 10]);
  assertEquals(notes, [
    sentenceNamed("core/data/open/open: data synthetic vectors"),
  ]);
  assertEquals(orders, { train: "c9a03ac0", val: "8a7d9e11" });
  assertEquals(open({ val_samples: 0 }).val, null);
});

Deno.test("fields are fields, whatever the model", () => {
  assertEquals(open({ type: "fields" }, { name: "resnet18" }).train.facts.outputs, 2);
});

Deno.test("an unknown type is refused with the nearest name and what there is", () => {
  assertEquals(refused({ type: "minst" }).kind, "usage");
  assertSentence("core/data/open/open: unknown data type", refused({ type: "minst" }).message, {
    join: DATA_KIND_NAMES.join(", "),
  });
});

Deno.test(
  "auto with a path says what it can't make of it",
  inFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/ice.dat`, "CDF");
    const other = refused({ data_path: `${folder}/ice.dat` });
    assertEquals(other.kind, "data");
    assert(other.message.includes("doesn't say by its name what kind of data it is"), other.message);
    assert(refused({ data_path: `${folder}/nowhere` }).message.startsWith(`There is no ${folder}/nowhere.`));
    Deno.writeFileSync(`${folder}/train-images-idx3-ubyte`, new Uint8Array(0));
    assert(
      refused({ data_path: folder }).message.includes("train-labels-idx1-ubyte is not"),
      "taken for MNIST",
    );
  }),
);

Deno.test(
  "auto goes by the ending of a file, and by what is in a folder",
  inFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/T.CSV`, "a,b,y\n" + "1,2,0.5\n".repeat(20));
    const { train, val, notes } = open({ data_path: `${folder}/T.CSV` });
    assertEquals([train.length, val!.length, train.facts.outputs], [18, 2, 1]);
    assertEquals(notes, [
      sentenceNamed("core/data/open/open: data csv features", { folder }),
      sentenceNamed("core/data/open/open: read text commas"),
    ]);
    const said = (path: string) => refused({ data_path: `${folder}/${path}` }).message;
    assert(said("no.npz").includes("no.npz: there is no such file"), said("no.npz"));
    Deno.mkdirSync(`${folder}/arrays`);
    Deno.writeTextFileSync(`${folder}/arrays/x.npy`, "");
    assert(said("arrays").includes("x.npy is empty"), said("arrays"));
    Deno.mkdirSync(`${folder}/text`);
    Deno.writeFileSync(`${folder}/text/train.bin`, new Uint8Array(400));
    assertEquals(open({ data_path: `${folder}/text` }).train.facts.task, "language");
    for (const type of ["npz", "csv", "tokens"]) {
      const { kind, message } = refused({ type });
      assertEquals(kind, "usage");
      assert(message.includes("needs --data-path"), message);
    }
  }),
);

Deno.test("data that makes itself refuses a path", () => {
  for (const type of ["synthetic", "fields"]) {
    assert(refused({ type, data_path: "maps.nc" }).message.includes("--data-path is maps.nc"));
  }
});

Deno.test("more samples than fit are refused with the number that does, before they are made", () => {
  const error = refused({ type: "fields", val_samples: 1e9 });
  assertEquals(error.kind, "usage");
  assert(
    /would take .* of memory, and made-up data may take 512.0 MiB: set --val-samples \d+ or less/.test(
      error.message,
    ),
  );
  const most = Number(/--train-samples (\d+)/.exec(refused({ train_samples: 1e9 }).message)![1]);
  assertEquals(most, Math.floor(512 * 2 ** 20 / (4 * (7 + 8))));
});

Deno.test("sizes that no memory holds are refused by the setting to change", () => {
  const because = (model: Partial<Config["model"]>, data = {}) =>
    assertThrows(() => open(data, model), UserError).message;
  assert(because({ name: "gpt", vocab_size: 1e9 }).includes("set a smaller model.vocab_size"));
  assert(because({ name: "resnet18", image_size: 1e5 }).includes("set a smaller model.image_size"));
  assert(because({ image_size: 1e6 }, { type: "fields" }).endsWith("512.0 MiB: make the samples smaller."));
  const many = because({ name: "resnet18" }, { train_samples: 1e12 });
  assert(many.includes("--train-samples 1000000000000 is more than the 2147483647 samples"), many);
});
