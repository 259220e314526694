// Who reads a tensor gets the bytes that were written, or a sentence that names the file and the tensor: nobody has to
// ask for the comparison.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { convert } from "../../../commands/run/convert.ts";
import { inspect } from "../../../commands/run/inspect.ts";
import { UserError } from "../../../core/base/errors.ts";
import { FileBytes } from "../../../core/base/file_bytes.ts";
import { openZip } from "../../../core/base/zip.ts";
import { openCheckpoint } from "../../../core/checkpoint/open.ts";
import { findTensors } from "../../../core/checkpoint/named_tensors.ts";
import { writePt } from "../../../core/checkpoint/pt.ts";
import { writeSafetensors, writeWhole } from "../../../core/checkpoint/safetensors_writer.ts";
import { writeAllShards } from "../../../core/checkpoint/sharded_writer.ts";
import { flattenTree } from "../../../core/checkpoint/safetensors.ts";
import { INDEX_FILE } from "../../../core/checkpoint/sharded_reader.ts";
import { dict, memoryStorage, OrderedDict, tensorBytes, TensorData } from "../../../core/checkpoint/value.ts";
import { printed } from "../../commands/printed.ts";
import { inFolder } from "./python.ts";
import { assertSentence } from "../../sentences.ts";

/** A tensor's bytes occur nowhere else in a file. */
const bytesOf = (i: number) => Uint8Array.from({ length: 64 }, (_, k) => (k * 37 + i * 101 + 11) % 251);

const TENSORS = new Map(
  ["a.weight", "b.weight", "c.weight"].map((name, i) => [
    name,
    new TensorData("f32", [4, 4], memoryStorage(bytesOf(i))),
  ]),
);
const ROOT = dict({ epoch: 3, model_state_dict: new OrderedDict(TENSORS) });

/** Reads all of it as those do who use a checkpoint. */
function use(path: string): void {
  using file = openCheckpoint(path);
  for (const { tensor } of findTensors(file.root, path)) tensorBytes(tensor);
}

function placeOf(bytes: Uint8Array, part: Uint8Array): number {
  const latin = new TextDecoder("latin1");
  const at = latin.decode(bytes).indexOf(latin.decode(part));
  assert(at > 0);
  return at;
}

function flip(path: string, at: (good: Uint8Array) => number, bit = 1): () => void {
  const good = Deno.readFileSync(path), bytes = good.slice();
  bytes[at(good)] ^= bit;
  Deno.writeFileSync(path, bytes);
  return () => Deno.writeFileSync(path, good);
}

const KINDS: Record<string, (path: string) => void> = {
  "weights.safetensors": (path) => writeSafetensors(path, TENSORS, { sums: true }),
  "whole.safetensors": (path) => writeWhole(path, ROOT),
  "folder.ckpt": (path) => writeAllShards(path, 2, flattenTree(ROOT, path)),
  "whole.pt": (path) => writePt(path, ROOT),
};

for (const [kind, write] of Object.entries(KINDS)) {
  Deno.test(
    `a bit that is flipped in the first, a middle or the last tensor of ${kind} is found by whoever reads it`,
    inFolder((folder) => {
      const path = `${folder}/${kind}`;
      write(path);
      use(path);
      [...TENSORS.keys()].forEach((name, i) => {
        const files = kind === "folder.ckpt"
          ? [...Deno.readDirSync(path)].map((e) => `${path}/${e.name}`)
          : [path];
        const latin = new TextDecoder("latin1"), part = latin.decode(bytesOf(i));
        const file = files.find((one) => latin.decode(Deno.readFileSync(one)).includes(part))!;
        const mend = flip(file, (good) => placeOf(good, bytesOf(i)) + 17);
        const { kind: fault, message } = assertThrows(() => use(path), UserError);
        mend();
        assertEquals(fault, "checkpoint");
        assertStringIncludes(message, file);
        assertStringIncludes(message, name);
        assertSentence("core/checkpoint/checked_reads: wrong file damaged", message);
      });
      use(path);
    }),
  );
}

for (const kind of ["weights.safetensors", "whole.safetensors", "folder.ckpt"]) {
  Deno.test(
    `no bit of the header of ${kind} can be flipped unseen, those of the checksums' own names neither`,
    inFolder((folder) => {
      const path = `${folder}/${kind}`;
      KINDS[kind](path);
      const file = kind === "folder.ckpt" ? `${path}/${INDEX_FILE}` : path;
      const good = Deno.readFileSync(file);
      const size = kind === "folder.ckpt" ? good.length : 8 + new DataView(good.buffer).getUint32(0, true);
      for (let at = 0; at < size; at++) {
        const mend = flip(file, () => at, 1 << at % 8);
        const { kind: fault, message } = assertThrows(() => use(path), UserError, "", `byte ${at}`);
        mend();
        assertEquals(fault, "checkpoint");
        assertStringIncludes(message, path);
      }
    }),
  );
}

Deno.test(
  "a part of a tensor is not handed on before all of it was compared, in safetensors and in .pt",
  inFolder((folder) => {
    for (const kind of ["whole.safetensors", "whole.pt"]) {
      const path = `${folder}/${kind}`;
      KINDS[kind](path);
      flip(path, (good) => placeOf(good, bytesOf(1)) + 60); // behind what is read
      using file = openCheckpoint(path);
      const { tensor } = findTensors(file.root, path).find(({ name }) => name.endsWith("b.weight"))!;
      assertThrows(() => tensor.storage.read(0, 4), UserError, "b.weight");
      assertThrows(() => tensor.storage.read(0, 4), UserError, "b.weight");
    }
  }),
);

Deno.test(
  "tensors of a .pt file that share one storage are compared, though none of them is all of it",
  inFolder((folder) => {
    const path = `${folder}/shared.pt`, storage = memoryStorage(bytesOf(5));
    const half = (at: number) => new TensorData("f32", [2, 4], storage, [4, 1], at);
    writePt(path, dict({ first: half(0), second: half(8) }));
    use(path);
    flip(path, (good) => placeOf(good, bytesOf(5)) + 40);
    const { message } = assertThrows(() => use(path), UserError, "(first) is wrong");
    assertStringIncludes(message, path);
  }),
);

Deno.test(
  "an entry of a zip that is copied in parts is compared first, so that no new checksum is written over damage",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    KINDS["whole.pt"](path);
    flip(path, (good) => placeOf(good, bytesOf(2)) + 60);
    const file = new FileBytes(path);
    try {
      const zip = openZip(file), content = zip.content(zip.entries.get("archive/data/2")!);
      assertThrows(() => content.read(0, 10), UserError, '"archive/data/2" is wrong');
    } finally {
      file.close();
    }
  }),
);

Deno.test(
  "convert writes nothing from a damaged file, in no format, and a stranger's file without checksums is converted",
  inFolder(async (folder) => {
    const outs = [["out.pt"], ["out.safetensors"], ["out.ckpt", "--shards=2"]];
    for (const kind of ["weights.safetensors", "whole.safetensors", "whole.pt"]) {
      KINDS[kind](`${folder}/${kind}`);
      flip(`${folder}/${kind}`, (good) => placeOf(good, bytesOf(2)) + 5);
      for (const [out, ...flags] of outs) {
        for (const whole of [[], ["--whole"]]) {
          const target = `${folder}/${kind}${whole.length}${out}`;
          const argv = [`${folder}/${kind}`, target, ...flags, ...whole];
          const said = await convert(argv).then(() => "", (error) => (error as UserError).message);
          assertStringIncludes(said, "c.weight");
          assertThrows(() => openCheckpoint(target), UserError);
        }
      }
    }
    writeSafetensors(`${folder}/theirs.safetensors`, TENSORS);
    flip(`${folder}/theirs.safetensors`, (good) => good.length - 5);
    const [code] = await printed(() => convert([`${folder}/theirs.safetensors`, `${folder}/ours.pt`]));
    assertEquals(code, 0);
  }),
);

Deno.test(
  "inspect says whether the checksums were compared and are right, or that there are none",
  inFolder(async (folder) => {
    const [ours, theirs] = [`${folder}/ours.safetensors`, `${folder}/theirs.safetensors`];
    writeSafetensors(ours, TENSORS, { sums: true });
    writeSafetensors(theirs, TENSORS);
    const text = async (...argv: string[]) => (await printed(() => inspect(argv)))[1];
    assertStringIncludes(await text(ours), "were not compared (--verify compares them)");
    assertStringIncludes(await text(ours, "--verify"), "verified: every checksum is right");
    assertStringIncludes(await text(theirs), "have no checksums");
    const { hasSums, verified } = JSON.parse(await text(ours, "--json"));
    assertEquals([hasSums, verified], [true, false]);
    assertEquals(JSON.parse(await text(theirs, "--json")).hasSums, false);
  }),
);
