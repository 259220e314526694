// Safetensors both ways against the reference implementation, and headers that lie.
import { assertEquals, assertThrows } from "@std/assert";
import { readSafetensors } from "../../../core/checkpoint/safetensors.ts";
import { writeSafetensors } from "../../../core/checkpoint/safetensors_writer.ts";
import {
  DTYPE_BYTES,
  memoryStorage,
  type StoredDType,
  tensorBytes,
  TensorData,
} from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder, python } from "./python.ts";
import { sentenceNamed } from "../../sentences.ts";

const KNOWN = (Object.keys(DTYPE_BYTES) as StoredDType[]).filter((dtype) => dtype !== "c128");

function write(path: string, header: string, data = 0, length = header.length): void {
  const bytes = new Uint8Array(8 + header.length + data);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(new TextEncoder().encode(header), 8);
  Deno.writeFileSync(path, bytes);
}

Deno.test(
  "we read what the reference writes, and write it again byte for byte",
  inFolder((folder) => {
    const [theirs, ours] = [`${folder}/theirs.safetensors`, `${folder}/ours.safetensors`];
    const printed = python(
      `
import torch, sys, json
from safetensors.torch import save_file
from safetensors import safe_open
t = {}
for i, name in enumerate("float32 float64 float16 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64".split()):
    x = torch.arange(6).reshape(2, 3)
    t[f"{i % 3}.{name}"] = (x % 2 == 0) if name == "bool" else x.to(getattr(torch, name))
t["scalar"] = torch.tensor(1.5); t["empty"] = torch.zeros(0, 4); t["10"] = torch.ones(1); t['quote"é'] = torch.ones(1)
save_file(t, sys.argv[1])
print(json.dumps({k: [list(v.shape), v.contiguous().flatten().view(torch.uint8).tolist() if v.dtype != torch.bool else v.flatten().int().tolist()] for k, v in t.items()}))`,
      theirs,
    );
    using file = readSafetensors(theirs);
    const found = [...file.tensors].map((
      [name, value],
    ) => [name, [value.shape, [...tensorBytes(value)]]]);
    assertEquals(Object.fromEntries(found), JSON.parse(printed));
    writeSafetensors(ours, file.tensors);
    assertEquals(Deno.readFileSync(ours), Deno.readFileSync(theirs));
  }),
);

Deno.test(
  "the reference reads every element type we write, strided tensors and metadata",
  inFolder((folder) => {
    const path = `${folder}/ours.safetensors`;
    const storage = memoryStorage(Uint8Array.from({ length: 96 }, (_, i) => i % 2));
    const tensors = new Map(
      KNOWN.map((dtype) => [dtype as string, new TensorData(dtype, [3, 2], storage, [1, 3])]),
    );
    writeSafetensors(path, tensors, { metadata: { format: "pt", note: 'a "note"' } });
    const printed = python(
      `
import sys, json, torch
from safetensors import safe_open
with safe_open(sys.argv[1], "pt") as f:
    print(json.dumps([f.metadata(), {k: list(f.get_tensor(k).flatten().view(torch.uint8).tolist()) if k != "bool" else f.get_tensor(k).flatten().int().tolist() for k in f.keys()}]))`,
      path,
    );
    const expected = Object.fromEntries(KNOWN.map((dtype) => {
      const size = DTYPE_BYTES[dtype];
      const item = (i: number) => Array.from({ length: size }, (_, byte) => (i * size + byte) % 2);
      return [dtype, [0, 3, 1, 4, 2, 5].flatMap(item)];
    }));
    assertEquals(JSON.parse(printed), [{ format: "pt", note: 'a "note"' }, expected]);
  }),
);

Deno.test(
  "complex128, which the format lacks, is refused and nothing is written",
  inFolder((folder) => {
    const path = `${folder}/a.safetensors`;
    const tensors = new Map([["z", new TensorData("c128", [1], memoryStorage(new Uint8Array(16)))]]);
    assertThrows(() => writeSafetensors(path, tensors), UserError, "no type for z");
    assertEquals([...Deno.readDirSync(folder)], []);
  }),
);

const f32 = (from: number, to: number, shape = `[${(to - from) / 4}]`) =>
  `{"dtype":"F32","shape":${shape},"data_offsets":[${from},${to}]}`;
const LIES: Record<string, [header: string, data: number, sentence: string, length?: number]> = {
  "a header longer than the file": ["{}", 0, "is truncated: its header alone", 1000],
  "a header of 2^62 bytes": ["{}", 0, "its header would be", 2 ** 62],
  "a header that is no JSON": ["{nope", 0, "its header is not JSON"],
  "a header that is a list": ["[1]", 0, "not a JSON object"],
  "brackets nested a million deep": ["[".repeat(1e6), 0, "holds more single values"],
  "overlapping tensors": [
    `{"a":${f32(0, 8)},"b":${f32(4, 12)}}`,
    12,
    sentenceNamed("core/checkpoint/safetensors: begins tensor before"),
  ],
  "a gap": [`{"a":${f32(0, 8)},"b":${f32(12, 16)}}`, 16, '"b" begins at 12'],
  "bytes after the last tensor": [`{"a":${f32(0, 8)}}`, 9, "has 1 bytes after its last tensor"],
  "a tensor beyond the file": [`{"a":${f32(0, 8)}}`, 4, 'is truncated: "a" ends'],
  "a shape that does not fit its bytes": [
    `{"a":${f32(0, 8, "[3]")}}`,
    8,
    '"a" is F32 [3], 12 bytes, but 8 are set aside',
  ],
  "a shape whose size overflows": [
    `{"a":${f32(0, 8, "[4294967296,4294967296,4294967296]")}}`,
    8,
    "are set aside",
  ],
  "a negative size": [`{"a":${f32(0, 8, "[-2]")}}`, 8, "not a type, a shape and two offsets"],
  "a name used twice": [`{"a":${f32(0, 8)},"\\u0061" : ${f32(0, 8)}}`, 8, "twice"],
  "an unknown type": [
    '{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}',
    1,
    '"F8_E4M3", which hpctrain can\'t read',
  ],
  "a type that is no text": ['{"a":{"dtype":3,"shape":[1],"data_offsets":[0,1]}}', 1, "not a type"],
  "an entry that is no object": ['{"a":null}', 0, "not a type"],
  "metadata that is not text": ['{"__metadata__":{"a":1}}', 0, "not text by text"],
};

for (const [what, [header, data, sentence, length]] of Object.entries(LIES)) {
  Deno.test(
    `a safetensors file with ${what} is refused with a sentence`,
    inFolder((folder) => {
      const path = `${folder}/lie.safetensors`;
      write(path, header, data, length);
      const error = assertThrows(() => readSafetensors(path), UserError, sentence);
      assertEquals(error.kind, "checkpoint");
    }),
  );
}
