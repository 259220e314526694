// Damage and malice done to checkpoint files, the same for the same seed.
import { FileBytes } from "../../../core/base/file_bytes.ts";
import { memoryStorage } from "../../../core/checkpoint/value.ts";
import { openZip } from "../../../core/base/zip.ts";
import { zipWriter } from "../../../core/checkpoint/zip_writer.ts";

/** Numbers in [0, 1) that look random and are the same each time (mulberry32). */
export function dice(seed: number): () => number {
  return () => {
    seed = seed + 0x6d2b79f5 | 0;
    let x = Math.imul(seed ^ seed >>> 15, 1 | seed);
    x = x + Math.imul(x ^ x >>> 7, 61 | x) ^ x;
    return ((x ^ x >>> 14) >>> 0) / 2 ** 32;
  };
}

export type Mutation = (bytes: Uint8Array, random: () => number) => Uint8Array;

export const below = (random: () => number, end: number): number => Math.floor(random() * end);
const pick = <T>(random: () => number, items: readonly T[]): T => items[below(random, items.length)];
const latin1 = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0));

export function joined(...parts: Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Anywhere, or in the first or last part, where the structure is. */
function place(length: number, random: () => number): number {
  const where = random();
  return Math.floor(length * pick(random, [where, where / 8, 1 - where / 8, where * where])) % length;
}

const flips: Mutation = (bytes, random) => {
  const out = bytes.slice();
  for (let n = 1 + below(random, 8); n > 0; n--) out[place(out.length, random)] ^= 1 << below(random, 8);
  return out;
};

const truncated: Mutation = (bytes, random) => bytes.slice(0, place(bytes.length, random));

/** A piece is copied over another, put in, taken out, or garbage follows the end. */
const spliced: Mutation = (bytes, random) => {
  const [from, to] = [place(bytes.length, random), place(bytes.length, random)];
  const piece = bytes.subarray(from, from + 1 + below(random, pick(random, [8, 64, 1024])));
  switch (below(random, 4)) {
    case 0:
      return joined(bytes.subarray(0, to), piece, bytes.subarray(to + piece.length));
    case 1:
      return joined(bytes.subarray(0, to), piece, bytes.subarray(to));
    case 2:
      return joined(bytes.subarray(0, from), bytes.subarray(from + piece.length));
    default:
      return joined(bytes, piece);
  }
};

/** The signatures of a zip's headers; where there are none, any place will do. */
const SIGNATURES = [0x04034b50, 0x02014b50, 0x06054b50, 0x06064b50, 0x07064b50];

/** A length or an offset becomes another one that programs are known to mistake. */
const lengths: Mutation = (bytes, random) => {
  const out = bytes.slice();
  const view = new DataView(out.buffer);
  const headers: number[] = [];
  for (let at = 0; at + 4 <= out.length; at++) {
    if (SIGNATURES.includes(view.getUint32(at, true))) headers.push(at);
  }
  const base = headers.length > 0 ? pick(random, headers) : 0;
  const size = pick(random, [2, 4, 8]);
  const at = Math.min(base + below(random, headers.length > 0 ? 46 : 9), out.length - size);
  const n = BigInt(out.length);
  const value = pick(random, [
    0n,
    1n,
    2n,
    n,
    n - 1n,
    n + 1n,
    0x7fffn,
    0xffffn,
    0x7fffffffn,
    0xffffffffn,
    1n << 62n,
    -1n,
    BigInt(at),
  ]);
  if (at < 0) return out;
  if (size === 2) view.setUint16(at, Number(BigInt.asUintN(16, value)), true);
  else if (size === 4) view.setUint32(at, Number(BigInt.asUintN(32, value)), true);
  else view.setBigUint64(at, BigInt.asUintN(64, value), true);
  return out;
};

/** What happens to files by itself. */
export const DAMAGE: readonly Mutation[] = [flips, truncated, spliced, lengths];

// ---- files that somebody made so -----------------------------------------------------------------------------

/** Pieces of pickle: calls of functions, bombs, and operations that do not belong where they are put. */
function pieces(marker: string): string[] {
  const command = `touch ${marker}`;
  const text = (s: string) => `X${String.fromCharCode(s.length)}\0\0\0${s}`;
  return [
    `cposix\nsystem\n${text(command)}\x85R`,
    `cos\nsystem\n(${text(command)}tR`,
    `(${text(command)}ios\nsystem\n`,
    `cbuiltins\neval\n${text(`__import__('os').system('${command}')`)}\x85R`,
    `\x8c\x08builtins\x8c\x04exec\x93${text(command)}\x85R`,
    `csubprocess\nPopen\n)\x81}b`,
    "c__main__\nx\n",
    "ctorch._utils\n_rebuild_tensor_v2\n(NK\0))\x89NtR",
    "ctorch\nSize\n(K\xffJ\xff\xff\xff\x7ftR",
    "ccollections\nOrderedDict\n(h\0lR",
    "ctorch\ndevice\nh\0\x85R",
    "]q\0h\0a",
    "}q\0h\0h\0s",
    "X\xff\xff\xff\x7f",
    "\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
    "\x8b\xff\xff\xff\x7f",
    "((((tltu",
    "R",
    "b",
    "Q",
    "0",
    "1",
    ".",
  ];
}

/** The pickle of a .pt file is changed, and all checksums are right again. */
export function forgedPt(path: string, marker: string): Mutation {
  const all = pieces(marker).map(latin1);
  const entries = entriesOf(path);
  const nest: Mutation = (pickle, random) => {
    const [open, close] = pick(random, [["(", "t"], ["(", "l"], ["]", "a"], ["}K\0", "s"], ["N", "\x85"], [
      "(",
      "",
    ]]);
    const depth = pick(random, [10, 1000, 20_000]);
    const at = place(pickle.length, random);
    return joined(
      pickle.subarray(0, at),
      latin1(open.repeat(depth) + close.repeat(depth)),
      pickle.subarray(at),
    );
  };
  const insert: Mutation = (pickle, random) => {
    const at = place(pickle.length, random);
    return joined(pickle.subarray(0, at), pick(random, all), pickle.subarray(at));
  };
  return (bytes, random) => {
    const changed = entries.map(([name, content]): [string, Uint8Array] => {
      const pickle = name.endsWith("data.pkl");
      if (pickle) {
        return [name, pick(random, [flips, truncated, spliced, insert, insert, nest])(content, random)];
      }
      return random() < 0.02
        ? [name, pick(random, [bytes, content.subarray(1), new Uint8Array()])]
        : [name, content];
    });
    const temporary = `${path}.forged`;
    writeZip(temporary, changed);
    return Deno.readFileSync(temporary);
  };
}

function entriesOf(path: string): [string, Uint8Array][] {
  const file = new FileBytes(path);
  try {
    const zip = openZip(file);
    return [...zip.entries.values()].map((entry) => [entry.name, zip.read(entry)]);
  } finally {
    file.close();
  }
}

export function writeZip(path: string, entries: Iterable<readonly [string, Uint8Array]>): void {
  using file = Deno.openSync(path, { read: true, write: true, create: true, truncate: true });
  const zip = zipWriter(file);
  for (const [name, bytes] of entries) zip.add(name, memoryStorage(bytes));
  zip.finish();
}

/** Values that do not belong where they are put. */
const ODD = [
  "0",
  "-1",
  "1e400",
  "1.5",
  "9007199254740993",
  "null",
  "{}",
  "[]",
  '""',
  '"__proto__"',
  '"F32"',
  '"F8_E4M3"',
  '"\\u0000\\u009b31m"',
  "[0,0]",
  "[4294967296,4294967296]",
  '{"$tensor":"nobody"}',
  '{\\"$call\\":\\"os.system\\"}',
];

/** The header of a safetensors file is changed, and its length is right again. */
export const forgedSafetensors: Mutation = (bytes, random) => {
  const end = 8 + Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  const header = new TextDecoder().decode(bytes.subarray(8, end));
  const tokens = [...header.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+|[[\]{},:]/g)];
  let changed = header;
  for (let n = 1 + below(random, 2); n > 0; n--) {
    const { index, 0: token } = pick(random, tokens);
    const deep = pick(random, [10, 1000, 20_000]);
    const odd = random() < 0.1
      ? "[".repeat(deep) + "]".repeat(deep)
      : pick(random, [...ODD, "", token + token]);
    changed = changed.slice(0, index) + odd + changed.slice(index + token.length);
  }
  const text = new TextEncoder().encode(changed);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  return joined(length, text, bytes.subarray(end));
};
