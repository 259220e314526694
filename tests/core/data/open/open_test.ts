// data.type -> sources, and the sentences for types that are not there.
import { DATA_KIND_NAMES } from "../../../../core/settings/formats.ts";
import { assert, assertEquals } from "@std/assert";
import type { Config } from "../../../../core/settings/settings.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder } from "../../checkpoint/python.ts";
import { opened as open, refusedData as refused } from "../opened.ts";
import { assertSentence, sentenceNamed } from "../../../sentences.ts";

useLibtorch();

Deno.test("auto without a path is synthetic, with the numbers of samples asked for", () => {
  const { train, val, notes, orders } = open({});
  assertEquals([train.name, train.length, val!.length], ["synthetic vectors", 50, 10]);
  assertEquals(notes, [
    sentenceNamed("core/data/open/open: data synthetic vectors"),
  ]);
  assertEquals(orders, { train: "c9a03ac0", val: "8a7d9e11" });
  assertEquals(open({ val_samples: 0 }).val, null);
});

Deno.test("an unknown type is refused with the nearest name and what there is", () => {
  assertEquals(refused({ type: "syntetic" }).kind, "usage");
  assertSentence("core/data/open/open: unknown data type", refused({ type: "syntetic" }).message, {
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
  }),
);

Deno.test("data that makes itself refuses a path", () => {
  const { message } = refused({ type: "synthetic", data_path: "maps.nc" });
  assert(message.includes("--data-path is maps.nc"), message);
});

Deno.test("more samples than fit are refused with the number that does, before they are made", () => {
  const error = refused({ val_samples: 1e9 });
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
  const because = (model: Partial<Config["model"]>, data = {}) => refused(data, model).message;
  assert(because({ name: "gpt", vocab_size: 1e9 }).includes("set a smaller model.vocab_size"));
  assert(because({ name: "resnet18", image_size: 1e5 }).includes("set a smaller model.image_size"));
  const many = because({ name: "resnet18" }, { train_samples: 1e12 });
  assert(many.includes("--train-samples 1000000000000 is more than the 2147483647 samples"), many);
});
