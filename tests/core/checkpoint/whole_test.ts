// A whole checkpoint as safetensors, in one file and in several: the same tree as the .pt file has, and files that stock
// readers take.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { convert } from "../../../commands/run/convert.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { flattenTree, TREE_KEY } from "../../../core/checkpoint/safetensors.ts";
import { writeSafetensors, writeWhole } from "../../../core/checkpoint/safetensors_writer.ts";
import { INDEX_FILE } from "../../../core/checkpoint/sharded_reader.ts";
import { planShards, writeIndex, writeShard } from "../../../core/checkpoint/sharded_writer.ts";
import {
  dict,
  DTYPE_BYTES,
  memoryStorage,
  OrderedDict,
  type StoredDType,
  TensorData,
  Tuple,
  type Value,
} from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { printed } from "../../commands/printed.ts";
import { inFolder, python } from "./python.ts";

/** A tensor whose bytes follow from its number. */
function tensor(number: number, shape: number[], dtype: StoredDType = "f32"): TensorData {
  const count = shape.reduce((a, b) => a * b, DTYPE_BYTES[dtype]);
  const bytes = Uint8Array.from(
    { length: count },
    (_, i) => dtype === "bool" ? i & 1 : (i * 31 + number) % 120,
  );
  return new TensorData(dtype, shape, memoryStorage(bytes));
}

/** What a run saves, with a tensor of every type, and values that JSON can't say. */
function checkpoint(number = 0): Value {
  const names = ["0.weight", "0.bias", "2.weight"];
  const shapes = [[8, 4], [8], [2, 8]];
  const all = (from: number) =>
    new OrderedDict(names.map((name, i) => [name, tensor(number + from + i, shapes[i])]));
  const types = (Object.keys(DTYPE_BYTES) as StoredDType[]).filter((dtype) => dtype !== "c128");
  const state = new Map(names.map((_, i) => [
    i,
    dict({
      exp_avg: tensor(number + 20 + i, shapes[i]),
      exp_avg_sq: tensor(number + 30 + i, shapes[i]),
      step: tensor(4, []),
    }),
  ]));
  return dict({
    epoch: 3,
    model_state_dict: all(10),
    optimizer_state_dict: dict({
      state: state as Value,
      param_groups: [
        dict({ lr: 0.1, betas: new Tuple([0.9, 0.999]), params: [0, 1, 2], param_names: names }),
      ],
    }),
    val_loss: 1 / 3,
    config: dict({ "7": "seven", "$key": [null, true, "é"], empty: dict({}) }),
    odd: [
      NaN,
      -Infinity,
      -0,
      2n ** 80n,
      -(2n ** 64n),
      Uint8Array.of(0, 255, 7),
      new Map<number | null, Value>([[3, "x"], [null, []]]),
    ],
    types: new OrderedDict(types.map((dtype, i) => [dtype, tensor(i, [2, 3], dtype)])),
    hpctrain: dict({ run: "r", ema_state_dict: all(40), cursor: dict({ sums: [0.1 + 0.2, 1e-300] }) }),
  });
}

/** A checkpoint's tree as a .pt file, which is the same bytes for the same tree. */
function asPt(path: string, to: string): Uint8Array {
  using file = openCheckpoint(path);
  file.verify();
  assert(file.hasSums);
  writePt(to, file.root);
  return Deno.readFileSync(to);
}

Deno.test(
  "a checkpoint goes to safetensors, to shards and back to .pt by convert, and the last .pt is the first, bit for bit",
  inFolder(async (folder) => {
    const [first, whole, shards, again, last] = ["a.pt", "b.safetensors", "c.ckpt", "d.safetensors", "e.pt"]
      .map((name) => `${folder}/${name}`);
    writePt(first, checkpoint());
    for (
      const argv of [[first, whole], [whole, shards, "--shards", "3"], [shards, again], [again, last]]
    ) {
      const [code, text] = await printed(() => convert([...argv, "--whole"]));
      assertEquals(code, 0);
      assertStringIncludes(text, "Wrote 29 tensors to");
    }
    assertEquals(Deno.readFileSync(last), Deno.readFileSync(first));
    assertEquals(Deno.readFileSync(again), Deno.readFileSync(whole));
    for (const path of [whole, shards]) assertEquals(asPt(path, `${folder}/x.pt`), Deno.readFileSync(first));
  }),
);

Deno.test(
  "stock safetensors reads a whole checkpoint of ours: every type, names that say what a tensor is, the rest as JSON",
  inFolder((folder) => {
    writePt(`${folder}/a.pt`, checkpoint());
    writeWhole(`${folder}/a.safetensors`, checkpoint());
    const found = python(
      `
import sys, json, torch
from safetensors import safe_open
from safetensors.torch import load_file
a, b = torch.load(sys.argv[1], weights_only=True), load_file(sys.argv[2])
raw = lambda t: bytes(t.contiguous().flatten().view(torch.uint8).tolist()) if t.dtype != torch.bool else t.tolist()
def same(t, name):
    u = b.pop(name)
    assert u.dtype == t.dtype and u.shape == t.shape and raw(u) == raw(t), name
names = list(a["model_state_dict"])
for n, t in a["model_state_dict"].items(): same(t, "model." + n)
for n, t in a["hpctrain"]["ema_state_dict"].items(): same(t, "ema." + n)
for i, s in a["optimizer_state_dict"]["state"].items():
    for slot, t in s.items(): same(t, f"optimizer.{slot}.{names[i]}")
for n, t in a["types"].items(): same(t, "types." + n)
tree = json.loads(safe_open(sys.argv[2], "pt").metadata()["hpctrain_tree"])
print(json.dumps([list(b), tree["epoch"], tree["hpctrain"]["cursor"], a["val_loss"] == tree["val_loss"]]))`,
      `${folder}/a.pt`,
      `${folder}/a.safetensors`,
    );
    assertEquals(JSON.parse(found), [[], 3, { sums: [0.1 + 0.2, 1e-300] }, true]);
  }),
);

Deno.test(
  "any bit that is flipped in a file with checksums is found by verify, or makes it unreadable",
  inFolder((folder) => {
    const path = `${folder}/a.safetensors`;
    writeWhole(path, checkpoint());
    const good = Deno.readFileSync(path);
    for (let at = 0; at < good.length; at += 7) {
      const bytes = good.slice();
      bytes[at] ^= 1 << at % 8;
      Deno.writeFileSync(path, bytes);
      const said = assertThrows(
        () => {
          using file = openCheckpoint(path);
          file.verify();
        },
        UserError,
        "",
        `byte ${at}`,
      );
      assertEquals(said.kind, "checkpoint");
    }
  }),
);

Deno.test(
  "a checkpoint of ten thousand small tensors, with nothing large beside them, is read in every format",
  inFolder((folder) => {
    const names = Array.from({ length: 10_000 }, (_, i) => `layers.${i}.attention.norm.weight`);
    const root = dict({
      model_state_dict: new OrderedDict(names.map((name, i) => [name, tensor(i % 50, [4])])),
    });
    writePt(`${folder}/a.pt`, root);
    writeWhole(`${folder}/a.safetensors`, root);
    const shards = { folder: `${folder}/a.ckpt`, world: 2, generation: "" };
    const flat = flattenTree(root, "a");
    for (const rank of [0, 1]) writeShard(shards, rank, flat);
    writeIndex(shards, flat);
    for (const name of ["a.pt", "a.safetensors", "a.ckpt"]) {
      using file = openCheckpoint(`${folder}/${name}`);
      const found = (file.root as Map<string, OrderedDict>).get("model_state_dict")!;
      assertEquals([...found.keys()], names, name);
    }
  }),
);

Deno.test("a list that holds itself, or one that unfolds without end, is refused before it fills the memory", () => {
  let bomb: Value[] = [];
  for (let depth = 0; depth < 60; depth++) bomb = Array.from({ length: 10 }, () => bomb);
  assertThrows(() => flattenTree(bomb, "a"), UserError, "more than 1000000 single values");
  const loop: Value[] = [];
  loop.push(loop);
  assertThrows(() => flattenTree(loop, "a"), UserError, "64 deep");
});

const BAD_TREES: Record<string, [string, string]> = {
  "is no JSON": ["{", "no JSON"],
  "names a tensor that is not there": ['{"a":{"$tensor":"b"}}', 'the tensor "b", which is not in the file'],
  "has an unknown kind": ['{"a":{"$call":"os.system"}}', '"$call" of "os.system"'],
  "has a number that is none": ['{"a":{"$float":"0x10"}}', '"$float" of "0x10"'],
  "has bytes that are none": ['{"a":{"$bytes":"="}}', '"$bytes" of "="'],
  "has a dict of triples without a value": ['{"a":{"$dict":[[1]]}}', "not pairs"],
  "has a list where text should be": ['{"a":{"$int":[1]}}', "not text"],
  "nests without end": ["[".repeat(100) + "]".repeat(100), "inside each other"],
};

for (const [what, [tree, sentence]] of Object.entries(BAD_TREES)) {
  Deno.test(
    `a safetensors file whose tree ${what} is refused with a sentence`,
    inFolder((folder) => {
      const path = `${folder}/a.safetensors`;
      writeSafetensors(path, new Map([["a", tensor(0, [2])]]), {
        metadata: { [TREE_KEY]: tree },
        sums: true,
      });
      const { kind, message } = assertThrows(() => openCheckpoint(path), UserError, sentence);
      assertEquals([kind, message.startsWith(path)], ["checkpoint", true]);
    }),
  );
}

Deno.test("tensors are shared out in order, about as many bytes to each file, whatever the number of files", () => {
  const { tensors } = flattenTree(checkpoint(), "a");
  for (const world of [1, 2, 3, 8, 100]) {
    const shards = planShards(tensors, world);
    assertEquals(shards.length, world);
    assertEquals(shards.flatMap((shard) => [...shard.keys()]), [...tensors.keys()]);
  }
  const equal = new Map(Array.from({ length: 40 }, (_, i) => [`t${i}`, tensor(i, [10])]));
  assertEquals(planShards(equal, 4).map((shard) => shard.size), [10, 10, 10, 10]);
});

/** One rank of a save, as a program of its own: the state, its folder, rank, world and generation. */
const RANK = `
import { openCheckpoint } from "CORE/open.ts";
import { flattenTree } from "CORE/safetensors.ts";
import { writeIndex, writeShard } from "CORE/sharded_writer.ts";
const [from, folder, rank, world, generation] = Deno.args;
using file = openCheckpoint(from);
const flat = flattenTree(file.root, from);
const shards = { folder, world: Number(world), generation };
if (rank === "index") writeIndex(shards, flat);
else writeShard(shards, Number(rank), flat);
`;

Deno.test(
  "ranks that are processes of their own write a checkpoint together, which replaces the one before when its index is written",
  inFolder(async (folder) => {
    const core = new URL("../../../core/checkpoint", import.meta.url).pathname;
    Deno.writeTextFileSync(`${folder}/rank.ts`, RANK.replaceAll("CORE", core));
    const config = new URL("../../../deno.json", import.meta.url).pathname;
    const target = `${folder}/run_latest.ckpt`;
    const rank = async (state: string, ...args: string[]) => {
      const { success, stderr } = await new Deno.Command(Deno.execPath(), {
        args: [
          "run",
          "-A",
          "--no-check",
          "--config",
          config,
          `${folder}/rank.ts`,
          `${folder}/${state}`,
          target,
          ...args,
        ],
      }).output();
      assert(success, new TextDecoder().decode(stderr));
    };
    writePt(`${folder}/first.pt`, checkpoint(1));
    writePt(`${folder}/second.pt`, checkpoint(2));
    const [first, second] = ["first", "second"].map((name) => Deno.readFileSync(`${folder}/${name}.pt`));
    const found = () => asPt(target, `${folder}/x.pt`);
    for (const k of ["0", "1", "2"]) await rank("first.pt", k, "3", "s10");
    assertThrows(() => openCheckpoint(target), UserError, "without a model.safetensors.index.json");
    await rank("first.pt", "index", "3", "s10");
    assertEquals(found(), first);
    for (const k of ["1", "0"]) {
      await rank("second.pt", k, "2", "s20");
      assertEquals(found(), first); // whatever is there of the next
    }
    await rank("second.pt", "index", "2", "s20");
    assertEquals(found(), second);
    assertEquals([...Deno.readDirSync(target)].map(({ name }) => name).sort(), [
      "model-s20-00001-of-00002.safetensors",
      "model-s20-00002-of-00002.safetensors",
      INDEX_FILE,
    ]);
  }),
);

Deno.test(
  "shards that are missing, cut, of another save or outside the folder are refused with a sentence",
  inFolder((folder) => {
    const write = (to: string, number: number) => {
      const flat = flattenTree(checkpoint(number), "a");
      const shards = { folder: `${folder}/${to}`, world: 2, generation: "" };
      for (const rank of [0, 1]) writeShard(shards, rank, flat);
      writeIndex(shards, flat);
      return shards.folder;
    };
    const [a, b] = [write("a.ckpt", 1), write("b.ckpt", 2)];
    const shard = "model-00002-of-00002.safetensors";
    const good = Deno.readFileSync(`${a}/${shard}`);
    const refused = (sentence: string) => {
      const { kind } = assertThrows(() => openCheckpoint(a), UserError, sentence);
      assertEquals(kind, "checkpoint");
    };
    Deno.copyFileSync(`${b}/${shard}`, `${a}/${shard}`);
    refused("of different saves");
    Deno.writeFileSync(`${a}/${shard}`, good.subarray(0, -5));
    refused("is truncated");
    Deno.removeSync(`${a}/${shard}`);
    refused("no such file");
    Deno.writeFileSync(`${a}/${shard}`, good);
    openCheckpoint(a).close();
    const index = Deno.readTextFileSync(`${a}/${INDEX_FILE}`);
    Deno.writeTextFileSync(`${a}/${INDEX_FILE}`, index.replace('"epoch', '"epocg').replace("epoch", "epocg"));
    refused("its checksum is wrong");
    for (const place of ["../b.ckpt/x.safetensors", "/etc/passwd", "x.pt"]) {
      Deno.writeTextFileSync(`${a}/${INDEX_FILE}`, JSON.stringify({ weight_map: { w: place } }));
      refused("is not the name of a safetensors file beside it");
    }
    for (
      const [text, sentence] of [["{", "not JSON"], ["[]", "no weight_map"], [
        '{"weight_map":{"nobody":"' + shard + '"}}',
        "and it is not",
      ]]
    ) {
      Deno.writeTextFileSync(`${a}/${INDEX_FILE}`, text);
      refused(sentence);
    }
  }),
);

Deno.test(
  "an index of Hugging Face's is read, and weights that convert shares out have its form",
  inFolder(async (folder) => {
    python(
      `
import sys, json, torch
from safetensors.torch import save_file
at = sys.argv[1]
save_file({"a": torch.arange(3.)}, at + "/model-00001-of-00002.safetensors", {"format": "pt"})
save_file({"b": torch.ones(2, dtype=torch.bfloat16)}, at + "/model-00002-of-00002.safetensors", {"format": "pt"})
json.dump({"metadata": {"total_size": 16}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}},
  open(at + "/model.safetensors.index.json", "w"))`,
      folder,
    );
    using file = openCheckpoint(folder);
    assertEquals([...(file.root as OrderedDict).keys()], ["a", "b"]);
    file.verify();
    assert(!file.hasSums);
    const [code] = await printed(() => convert([folder, `${folder}/out`, "--shards", "2"]));
    assertEquals(code, 0);
    const said = python(
      `
import sys, json
from safetensors.torch import load_file
at = sys.argv[1] + "/out/"
index = json.load(open(at + "model.safetensors.index.json"))
print({n: load_file(at + f)[n].tolist() for n, f in index["weight_map"].items()}, index["metadata"]["total_size"])`,
      folder,
    );
    assertEquals(said.trim(), "{'a': [0.0, 1.0, 2.0], 'b': [1.0, 1.0]} 16");
  }),
);
