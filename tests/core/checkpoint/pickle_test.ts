// Pickles that want more than data: nothing runs, nothing hangs, and each refusal names what it refused.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { readPickle } from "../../../core/checkpoint/pickle_reader.ts";
import { writePickle } from "../../../core/checkpoint/pickle_writer.ts";
import {
  dict,
  memoryStorage,
  OrderedDict,
  TensorData,
  Tuple,
  type Value,
} from "../../../core/checkpoint/value.ts";
import { UserError } from "../../../core/base/errors.ts";
import { readPt } from "../../../core/checkpoint/pt.ts";
import { inFolder, python } from "./python.ts";
import { measured } from "../../cpu_time.ts";

const refuse = (what: string): never => {
  throw new UserError("checkpoint", what);
};
const storage = () => refuse("its pickle has a storage");
const read = (bytes: Uint8Array | string) =>
  readPickle(typeof bytes === "string" ? bytesOf(bytes) : bytes, { refuse, storage }).value;
const bytesOf = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0));

/** What Python's pickle.dumps gives for an expression. */
const dumps = (expression: string, protocol: number) =>
  Uint8Array.fromHex(
    python(`import pickle, collections, os; print(pickle.dumps(${expression}, ${protocol}).hex())`).trim(),
  );

Deno.test("Python's pickles of protocol 2 to 5 give the same values", () => {
  const expression =
    "{'a': [1, -1, 2**40, -2**70, 2.5, None, True], 'b': (1, (2, 3, 4), ()), 3: b'\\x00\\xff', 's': {1}, 'o': collections.OrderedDict(x='é'), 'long': 'x' * 300}";
  const expected = new Map<string | number, Value>([
    ["a", [1, -1, 2 ** 40, -(2n ** 70n), 2.5, null, true]],
    ["b", new Tuple([1, new Tuple([2, 3, 4]), new Tuple([])])],
    [3, Uint8Array.of(0, 255)],
    ["s", new Set([1])],
    ["o", new OrderedDict([["x", "é"]])],
    ["long", "x".repeat(300)],
  ]);
  for (const protocol of [2, 3, 4, 5]) {
    assertEquals(read(dumps(expression, protocol)), expected, `protocol ${protocol}`);
  }
});

Deno.test("a value met twice is the same value, and a list may hold itself", () => {
  const [a, b] = read(dumps("(lambda x: [x, x])([1])", 2)) as Value[];
  assert(a === b);
  const loop = read("\x80\x02]q\x00h\x00a.") as Value[];
  assert(loop[0] === loop);
  assertThrows(() => writePickle(loop), UserError, "contains itself");
});

Deno.test(
  "a checkpoint that calls os.system is refused by name and does not run",
  inFolder((folder) => {
    const path = `${folder}/evil.pt`;
    python(
      `
import torch, sys, os
class Evil:
    def __reduce__(self): return os.system, ("touch " + sys.argv[2],)
torch.save({"w": torch.zeros(2), "evil": Evil()}, sys.argv[1])`,
      path,
      `${folder}/ran`,
    );
    const error = assertThrows(() => readPt(path), UserError, "posix.system");
    assertEquals(error.kind, "checkpoint");
    assertStringIncludes(error.message, "never executes a pickle");
    assertThrows(() => Deno.statSync(`${folder}/ran`), Deno.errors.NotFound);
    // The same file is a real attack: Python without weights_only does run it.
    python("import torch, sys; torch.load(sys.argv[1], weights_only=False)", path);
    assert(Deno.statSync(`${folder}/ran`).isFile);
  }),
);

const HOSTILE: Record<string, [string, string]> = {
  "names a function by GLOBAL": ["cposix\nsystem\n(X\x02\x00\x00\x00ls\x85R.", "posix.system"],
  "names a function by STACK_GLOBAL": ["\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "builtins.eval"],
  "names a function by INST": ["(X\x02\x00\x00\x00lsios\nsystem\n.", "os.system"],
  "calls what is not a function": ["]\x29R.", "not a function"],
  "calls a type by its plain name": ["ctorch\nfloat32\n)R.", "not a function"],
  "sets the state of a list": ["]}b.", "sets the state"],
  "names a prototype": ["c__proto__\nconstructor\n)R.", "__proto__.constructor"],
  "uses an extension code": ["\x82\x01.", "operation 0x82"],
  "asks for more text than there is": ["X\xff\xff\xff\x7fabc.", "cut off"],
  "asks for 2^63 bytes": ["\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "cut off"],
  "has an integer of 2 GB": ["\x8b\xff\xff\xff\x7f.", "integer of 2147483647 bytes"],
  "never ends": ["]q\x00", "cut off"],
  "takes from an empty stack": ["a.", "takes more than it made"],
  "takes what lies below a mark": ["](\x85.", "takes more than it made"],
  "closes what it never opened": ["]t.", "never opened"],
  "recalls what it never stored": ["h\x07.", "never made"],
  "has a list as a key": ["}]Ns.", "key that can't be one"],
  "sets an odd number of keys": ["}(Nu.", "keys of something"],
  "comes from the future": ["\x80\x06N.", "newer than 5"],
  "builds a tensor without a storage": [
    "ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))\x89NtR.",
    "without a storage",
  ],
  "piles up three million values": ["(" + "N".repeat(3_000_000) + "t.", "more single values"],
};

for (const [what, [pickle, sentence]] of Object.entries(HOSTILE)) {
  Deno.test(`a pickle that ${what} is refused with a sentence`, () => {
    const error = assertThrows(() => read(pickle), UserError, sentence);
    assertEquals(error.kind, "checkpoint");
  });
}

Deno.test("a laugh bomb of a billion lists costs no more than its bytes", () => {
  let pickle = "\x80\x02]q\x00";
  for (let i = 0; i < 60; i++) {
    pickle += `0](${`h${String.fromCharCode(i)}`.repeat(10)}eq${String.fromCharCode(i + 1)}`;
  }
  let value = read(pickle + ".") as Value[];
  for (let depth = 0; depth < 60; depth++) value = value[9] as Value[];
  assertEquals(value, []);
});

Deno.test("a hundred thousand nested tuples are read without recursion", () => {
  assert(read(")" + "\x85".repeat(100_000) + ".") instanceof Tuple);
});

Deno.test("tensors that reach beyond their storage are refused", () => {
  const base = new TensorData("f32", [4], memoryStorage(new Uint8Array(16)));
  const rebuild = (shape: number[], strides: number[], offset: number) => {
    const { bytes } = writePickle(dict({ t: new TensorData("f32", shape, base.storage, strides, offset) }));
    return () => readPickle(bytes, { refuse, storage: () => base });
  };
  rebuild([2, 2], [2, 1], 0)();
  rebuild([1000], [0], 3)();
  rebuild([0, 9], [99, 99], 0)();
  assertThrows(rebuild([2, 2], [2, 1], 1), UserError, "reaches beyond");
  assertThrows(rebuild([5], [1], 0), UserError, "reaches beyond");
  assertThrows(rebuild([2], [-1], 1), UserError, "not a count");
  assertThrows(rebuild([2, 2], [1], 0), UserError, "disagree");
  assertThrows(rebuild([2 ** 40, 2 ** 40], [2 ** 50, 2 ** 50], 0), UserError, "reaches beyond");
});

Deno.test("a bomb of single bytes that each make an object is refused before it fills the memory", () => {
  for (
    const bomb of [
      "](" + "}".repeat(1000) + "e",
      "(N" + "\x94".repeat(1000) + "1",
      "]".repeat(1000) + "0".repeat(1000),
    ]
  ) {
    assertThrows(() => read(bomb.repeat(10_000)), UserError, "more");
  }
});

Deno.test("integers of a thousand bytes are read in no time", () => {
  const integer = "\x8b\x00\x04\x00\x00" + "\x01" + "\x00".repeat(1022) + "\x80";
  const bytes = bytesOf(`${integer}0`.repeat(5000) + integer + ".");
  const { result, seconds } = measured(() => read(bytes));
  assertEquals(result, 1n - 2n ** 8191n);
  assert(seconds < 0.5, `${seconds} s`); // byte by byte it takes a second and more
});
