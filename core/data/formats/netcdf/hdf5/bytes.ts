// Bytes of an HDF5 file, each range checked against where the file says it ends, and the checksum of HDF5's metadata.

/** HDF5's own library reads such files, or says what is wrong. */
export class Unforeseen extends Error {}

export function unforeseen(what: string): never {
  throw new Unforeseen(what);
}

export interface FileView {
  readonly size: number;
  at(address: number, length: number): ByteSpan;
}

export class ByteSpan {
  #at = 0;
  readonly #view: DataView<ArrayBuffer>;

  constructor(readonly bytes: Uint8Array<ArrayBuffer>, readonly address: number) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get position(): number {
    return this.#at;
  }

  get left(): number {
    return this.bytes.length - this.#at;
  }

  skip(count: number): void {
    if (!(count >= 0 && count <= this.left)) unforeseen("past the end of a structure");
    this.#at += count;
  }

  take(count: number): ByteSpan {
    const from = this.#at;
    this.skip(count);
    return new ByteSpan(this.bytes.subarray(from, from + count), this.address + from);
  }

  u8(): number {
    return this.uint(1);
  }

  u16(): number {
    return this.uint(2);
  }

  u32(): number {
    return this.uint(4);
  }

  /** A double must hold the number exactly. */
  uint(width: number): number {
    const from = this.#at;
    this.skip(width);
    let value = 0;
    for (let i = width; i-- > 0;) value = value * 256 + this.#view.getUint8(from + i);
    return value <= Number.MAX_SAFE_INTEGER ? value : unforeseen("a number that is too large");
  }

  /** All bits set mean that nothing was stored. */
  address8(): number | null {
    const from = this.#at;
    this.skip(8);
    const value = this.#view.getBigUint64(from, true);
    if (value === 0xffffffffffffffffn) return null;
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : unforeseen("an address beyond all files");
  }

  sign(letters: string, version: number): void {
    for (const letter of letters) {
      if (this.u8() !== letter.charCodeAt(0)) unforeseen(`no ${letters}`);
    }
    if (this.u8() !== version) unforeseen(`another version of ${letters}`);
  }

  name(): Uint8Array<ArrayBuffer> {
    const end = this.bytes.indexOf(0, this.#at);
    if (end < 0) unforeseen("a name without an end");
    const { bytes } = this.take(end - this.#at);
    this.#at++;
    return bytes;
  }
}

export function textOfName(bytes: Uint8Array<ArrayBuffer>): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return unforeseen("a name that is no UTF-8");
  }
}

// HDF5's newer structures use Bob Jenkins' lookup3 over little-endian words.

export function lookup3(bytes: Uint8Array): number {
  let a = 0xdeadbeef + bytes.length | 0, b = a, c = a, at = 0, left = bytes.length;
  const word = (from: number) => {
    let value = 0;
    for (let i = Math.min(4, bytes.length - from); i-- > 0;) value = value << 8 | bytes[from + i];
    return value;
  };
  for (; left > 12; left -= 12, at += 12) {
    a = a + word(at) | 0;
    b = b + word(at + 4) | 0;
    c = c + word(at + 8) | 0;
    a = a - c ^ turn(c, 4);
    c = c + b | 0;
    b = b - a ^ turn(a, 6);
    a = a + c | 0;
    c = c - b ^ turn(b, 8);
    b = b + a | 0;
    a = a - c ^ turn(c, 16);
    c = c + b | 0;
    b = b - a ^ turn(a, 19);
    a = a + c | 0;
    c = c - b ^ turn(b, 4);
    b = b + a | 0;
  }
  if (left === 0) return c >>> 0;
  a = a + word(at) | 0;
  b = b + (left > 4 ? word(at + 4) : 0) | 0;
  c = c + (left > 8 ? word(at + 8) : 0) | 0;
  c = (c ^ b) - turn(b, 14) | 0;
  a = (a ^ c) - turn(c, 11) | 0;
  b = (b ^ a) - turn(a, 25) | 0;
  c = (c ^ b) - turn(b, 16) | 0;
  a = (a ^ c) - turn(c, 4) | 0;
  b = (b ^ a) - turn(a, 14) | 0;
  c = (c ^ b) - turn(b, 24) | 0;
  return c >>> 0;
}

const turn = (value: number, bits: number): number => value << bits | value >>> 32 - bits;

/** The sum follows the part of the span that was read so far. */
export function checkSum(span: ByteSpan): void {
  const covered = span.bytes.subarray(0, span.position);
  if (lookup3(covered) !== span.u32()) unforeseen("a structure fails its checksum");
}
