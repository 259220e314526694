// .pt files both ways against live PyTorch.
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { readPt, writePt } from "../../../core/checkpoint/pt.ts";
import {
  dict,
  DTYPE_BYTES,
  memoryStorage,
  OrderedDict,
  type StoredDType,
  tensorBytes,
  TensorData,
  TORCH_DTYPES,
  Tuple,
  type Value,
} from "../../../core/checkpoint/value.ts";
import { CHUNK_BYTES } from "../../../core/base/zip.ts";
import { UserError } from "../../../core/base/errors.ts";
import { inFolder, python } from "./python.ts";
import { assertRefusal } from "../../sentences.ts";

const tensor = (dtype: StoredDType, bytes: Uint8Array, shape: number[]) =>
  new TensorData(dtype, shape, memoryStorage(bytes));
const asMap = (value: Value) => value as Map<string, Value>;
const f32 = (value: Value) => [...new Float32Array(tensorBytes(value as TensorData).slice().buffer)];

/** Saves `program`'s variable x with torch.save and prints what it likes. */
function saved(folder: string, program: string): { root: Value; printed: string; [Symbol.dispose](): void } {
  const path = `${folder}/theirs.pt`;
  const printed = python(
    `import torch, sys, json, collections\n${program}\ntorch.save(x, sys.argv[1])`,
    path,
  );
  const file = readPt(path);
  file.verify();
  return { root: file.root, printed, [Symbol.dispose]: file.close };
}

Deno.test(
  "torch.load(weights_only=True) reads what we write, in every element type",
  inFolder((folder) => {
    const path = `${folder}/ours.pt`;
    const expected: Record<string, number[]> = {};
    const root = new OrderedDict();
    for (const dtype of Object.keys(DTYPE_BYTES) as StoredDType[]) {
      const bytes = Uint8Array.from(
        { length: 6 * DTYPE_BYTES[dtype] },
        (_, i) => dtype === "bool" ? i & 1 : i * 37 % 251,
      );
      expected[dtype] = [...bytes];
      root.set(dtype, tensor(dtype, bytes, [2, 3]));
    }
    writePt(path, root, { verify: true });
    const printed = python(
      `
import torch, sys, json
x = torch.load(sys.argv[1], weights_only=True)
print(json.dumps({k: [str(t.dtype), list(t.shape), list(t.contiguous().view(torch.uint8).flatten().tolist()) if t.dtype != torch.bool else t.flatten().int().tolist()] for k, t in x.items()}))`,
      path,
    );
    for (const [dtype, found] of Object.entries(JSON.parse(printed))) {
      assertEquals(found, [`torch.${TORCH_DTYPES[dtype as StoredDType]}`, [2, 3], expected[dtype]], dtype);
    }
  }),
);

Deno.test(
  "torch.load(weights_only=True) reads our numbers, text, bytes and containers",
  inFolder((folder) => {
    const path = `${folder}/ours.pt`;
    const big = 2n ** 80n;
    writePt(
      path,
      dict({
        none: null,
        yes: true,
        no: false,
        ints: [0, 1, -1, 255, 256, -129, 2 ** 31, -(2 ** 31), -(2 ** 31) - 1, 2 ** 40],
        bigs: [big, -big, 2n ** 63n, -(2n ** 63n), 127n, 128n, -128n],
        floats: [0.1, -0, Infinity, 1e300],
        text: "Zürich ✓ \uFEFF",
        bytes: Uint8Array.of(0, 127, 128, 255),
        pair: new Tuple([1, new Tuple([])]),
        deep: dict({ a: [dict({ b: [] })] }),
        keys: new Map<number | string, Value>([[0, "zero"], ["1", "one"]]),
      }),
    );
    const printed = python(
      "import torch, sys; print(repr(torch.load(sys.argv[1], weights_only=True)))",
      path,
    );
    assertEquals(
      printed.trim(),
      `{'none': None, 'yes': True, 'no': False, 'ints': [0, 1, -1, 255, 256, -129, 2147483648, -2147483648, -2147483649, 1099511627776], ` +
        `'bigs': [${big}, -${big}, 9223372036854775808, -9223372036854775808, 127, 128, -128], 'floats': [0.1, -0.0, inf, 1e+300], ` +
        `'text': 'Zürich ✓ \\ufeff', 'bytes': b'\\x00\\x7f\\x80\\xff', 'pair': (1, ()), 'deep': {'a': [{'b': []}]}, 'keys': {0: 'zero', '1': 'one'}}`,
    );
    using file = readPt(path);
    assertEquals(asMap(file.root).get("bigs"), [big, -big, 2n ** 63n, -(2n ** 63n), 127, 128, -128]);
    assertEquals(asMap(file.root).get("text"), "Zürich ✓ \uFEFF");
  }),
);

Deno.test(
  "shared storages, views and requires_grad survive the way to PyTorch and back",
  inFolder((folder) => {
    const path = `${folder}/ours.pt`;
    const arena = memoryStorage(new Uint8Array(new Float32Array([0, 1, 2, 3, 4, 5, 6, 7]).buffer));
    writePt(
      path,
      dict({
        a: new TensorData("f32", [2, 2], arena, [2, 1], 0, true),
        b: new TensorData("f32", [2, 2], arena, [1, 2], 4),
      }),
    );
    const printed = python(
      `
import torch, sys, json
x = torch.load(sys.argv[1], weights_only=True)
print(json.dumps([x['a'].tolist(), x['b'].tolist(), x['a'].requires_grad, x['b'].stride(), x['a'].untyped_storage().data_ptr() == x['b'].untyped_storage().data_ptr()]))`,
      path,
    );
    assertEquals(JSON.parse(printed), [[[0, 1], [2, 3]], [[4, 6], [5, 7]], true, [1, 2], true]);
    using file = readPt(path);
    const [a, b] = [...asMap(file.root).values()] as TensorData[];
    assertStrictEquals(a.storage, b.storage);
    assertEquals([a.requiresGrad, b.requiresGrad, f32(b)], [true, false, [4, 6, 5, 7]]);
  }),
);

Deno.test(
  "we read every element type that torch.save writes, contiguous or not",
  inFolder((folder) => {
    using file = saved(
      folder,
      `
x = {}
want = {}
for name in "${Object.values(TORCH_DTYPES).join(" ")}".split():
    d = getattr(torch, name)
    t = torch.arange(24).reshape(2, 3, 4)
    t = (t % 2 == 0) if d == torch.bool else t.to(d)
    for how, v in dict(plain=t, transposed=t.transpose(0, 2), sliced=t[:, 1:, ::2], expanded=t[:1].expand(3, 3, 4), empty=t[:0], scalar=t[1, 1, 1]).items():
        x[name + "." + how] = v
        c = v.contiguous().clone()
        want[name + "." + how] = [list(c.shape), bytes(c.untyped_storage())[:c.numel() * c.element_size()].hex()]
print(json.dumps(want))`,
    );
    const want = JSON.parse(file.printed) as Record<string, [number[], string]>;
    assertEquals(Object.keys(want).length, 15 * 6);
    for (const [name, [shape, hex]] of Object.entries(want)) {
      const found = asMap(file.root).get(name) as TensorData;
      assertEquals(`torch.${TORCH_DTYPES[found.dtype]}`, `torch.${name.split(".")[0]}`);
      assertEquals([[...found.shape], tensorBytes(found).toHex()], [shape, hex], name);
    }
  }),
);

Deno.test(
  "we read Parameters, tuples, sets, sizes, dtypes, devices, bytes, integers of any size and numpy numbers",
  inFolder((folder) => {
    using file = saved(
      folder,
      `
import numpy as np
x = collections.OrderedDict(p=torch.nn.Parameter(torch.ones(2)), t=(1, 2.5), s={1, 2}, size=torch.Size([3, 4]), d=torch.float32, dev=torch.device("cuda:1"),
  b=b"\\x00\\xff", ba=bytearray(b"hi"), big=-2**70, np=np.float64(2.5), npi=np.int64(-7), dd=collections.defaultdict(list, {"k": [1]}), n=None, nan=float("nan"))`,
    );
    const root = asMap(file.root);
    assert(root instanceof OrderedDict);
    assert((root.get("p") as TensorData).requiresGrad);
    assertEquals((root.get("t") as Tuple).items, [1, 2.5]);
    assertEquals(root.get("s"), new Set([1, 2]));
    assertEquals((root.get("size") as Tuple).items, [3, 4]);
    assertEquals([(root.get("d") as { name: string }).name, (root.get("dev") as { name: string }).name], [
      "torch.float32",
      "device(cuda:1)",
    ]);
    assertEquals([root.get("b"), root.get("ba")], [Uint8Array.of(0, 255), new TextEncoder().encode("hi")]);
    assertEquals([root.get("big"), root.get("np"), root.get("npi"), root.get("n"), root.get("nan")], [
      -(2n ** 70n),
      2.5,
      -7,
      null,
      NaN,
    ]);
    assertEquals(root.get("dd"), new Map([["k", [1]]]) as unknown as Value);
  }),
);

Deno.test(
  "a resnet18 with its optimizer goes from torch.save through us back into load_state_dict(strict=True)",
  inFolder((folder) => {
    using file = saved(
      folder,
      `
import torchvision
torch.manual_seed(0)
m = torchvision.models.resnet18(num_classes=10)
o = torch.optim.AdamW(m.parameters(), lr=1e-3)
m(torch.randn(2, 3, 32, 32)).sum().backward(); o.step()
x = {"model_state_dict": m.state_dict(), "optimizer_state_dict": o.state_dict(), "epoch": 3}`,
    );
    writePt(`${folder}/ours.pt`, file.root, { verify: true });
    const printed = python(
      `
import torch, sys, torchvision
a, b = (torch.load(p, weights_only=True) for p in sys.argv[1:])
m = torchvision.models.resnet18(num_classes=10)
m.load_state_dict(b["model_state_dict"], strict=True)
o = torch.optim.AdamW(m.parameters()); o.load_state_dict(b["optimizer_state_dict"])
assert list(a["model_state_dict"]) == list(b["model_state_dict"])
assert all(torch.equal(t, b["model_state_dict"][k]) for k, t in a["model_state_dict"].items())
sa, sb = a["optimizer_state_dict"], b["optimizer_state_dict"]
assert all(torch.equal(sa["state"][i][k], sb["state"][i][k]) for i in sa["state"] for k in sa["state"][i])
assert sa["param_groups"] == sb["param_groups"] and len(sa["state"]) == 62
print("equal")`,
      `${folder}/theirs.pt`,
      `${folder}/ours.pt`,
    );
    assertEquals(printed, "equal\n");
  }),
);

Deno.test(
  "a checkpoint is described without reading its tensors",
  inFolder((folder) => {
    const path = `${folder}/a.pt`;
    let reads = 0;
    const storage = {
      byteLength: 4 << 20,
      read: (_: number, length: number) => (reads++, new Uint8Array(length)),
    };
    writePt(path, dict({ big: new TensorData("f32", [1 << 20], storage) }));
    assertEquals(reads, storage.byteLength / CHUNK_BYTES); // written in pieces, each asked for once
    const before = Deno.memoryUsage().external;
    using file = readPt(path);
    assertEquals((asMap(file.root).get("big") as TensorData).byteLength, 4 << 20);
    assert(Deno.memoryUsage().external - before < 1 << 20);
  }),
);

Deno.test(
  "PyTorch's other formats are refused with the line of Python that converts them",
  inFolder((folder) => {
    const [legacy, script] = [`${folder}/legacy.pt`, `${folder}/script.pt`];
    python(
      `
import torch, sys
m = torch.nn.Linear(2, 1)
torch.save(m.state_dict(), sys.argv[1], _use_new_zipfile_serialization=False)
torch.jit.trace(m, torch.ones(1, 2)).save(sys.argv[2])`,
      legacy,
      script,
    );
    assertThrows(
      () => readPt(legacy),
      UserError,
      'torch.save(torch.load(path, map_location="cpu", weights_only=True), "new.pt")',
    );
    assertThrows(() => readPt(script), UserError, "is a TorchScript program");
  }),
);

Deno.test(
  "a file that is not on the disk as it was written does not take the old one's place",
  inFolder((folder) => {
    const path = `${folder}/a.pt`, bytes = new Uint8Array(1 << 20).fill(1);
    /** Its last piece is asked for when the others are in the file: then one of their bytes is changed. */
    const tensor = (spoil: boolean) => {
      const read = (offset: number, length: number) => {
        if (spoil && offset + length === bytes.length) {
          const { name } = [...Deno.readDirSync(folder)].find(({ name }) => name.includes(".tmp-"))!;
          using file = Deno.openSync(`${folder}/${name}`, { write: true });
          file.seekSync(100_000, Deno.SeekMode.Start);
          file.writeSync(Uint8Array.of(2));
        }
        return bytes.subarray(offset, offset + length);
      };
      return dict({ big: new TensorData("f32", [1 << 18], { byteLength: bytes.length, read }) });
    };
    writePt(path, tensor(false), { verify: true });
    const before = Deno.readFileSync(path);
    assertRefusal(
      "checkpoint",
      "core/checkpoint/pt: archive data read",
      assertThrows(() => writePt(path, tensor(true), { verify: true }), UserError),
    );
    assertEquals(Deno.readFileSync(path), before);
    assertEquals([...Deno.readDirSync(folder)].length, 1);
  }),
);
