// The wire format of protocol buffers, as far as the records of W&B and TensorBoard need it.

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;

const START_BYTES = 1024;
const SHORT = 64;

/** `reset` keeps the memory for the next message. */
export class ProtoWriter {
  readonly #encoder = new TextEncoder();
  #buffer = new Uint8Array(START_BYTES);
  #view = new DataView(this.#buffer.buffer);
  #at = 0;

  /** The format leaves out zeros. */
  int(field: number, value: number | boolean): void {
    const number = Number(value);
    if (number === 0) return;
    this.#varint(field * 8 + VARINT);
    this.#varint(number);
  }

  /** Zero is written too: one of several fields says by it which one is there. */
  present(field: number, value: number | boolean): void {
    this.#varint(field * 8 + VARINT);
    this.#varint(Number(value));
  }

  text(field: number, value: string | undefined): void {
    if (!value) return;
    this.#varint(field * 8 + BYTES);
    this.#grow(1 + 3 * value.length); // UTF-8 takes at most three bytes a UTF-16 unit
    const from = ++this.#at;
    if (!this.#ascii(value)) {
      this.#at = from + this.#encoder.encodeInto(value, this.#buffer.subarray(from)).written;
    }
    this.#setLength(from);
  }

  double(field: number, value: number): void {
    this.#varint(field * 8 + FIXED64);
    this.#grow(8);
    this.#view.setFloat64(this.#at, value, true);
    this.#at += 8;
  }

  float(field: number, value: number): void {
    this.#varint(field * 8 + FIXED32);
    this.#grow(4);
    this.#view.setFloat32(this.#at, value, true);
    this.#at += 4;
  }

  blob(field: number, value: Uint8Array): void {
    this.#varint(field * 8 + BYTES);
    this.#varint(value.length);
    this.#grow(value.length);
    this.#buffer.set(value, this.#at);
    this.#at += value.length;
  }

  /** A repeated field, packed. */
  doubles(field: number, values: readonly number[]): void {
    this.#varint(field * 8 + BYTES);
    this.#varint(8 * values.length);
    this.#grow(8 * values.length);
    for (const value of values) {
      this.#view.setFloat64(this.#at, value, true);
      this.#at += 8;
    }
  }

  /** `body` writes the fields; an empty message is written too. */
  message(field: number, body: () => void): void {
    this.#varint(field * 8 + BYTES);
    this.#grow(1);
    const from = ++this.#at;
    body();
    this.#setLength(from);
  }

  /** The view is valid until the next `reset`. */
  bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.#at);
  }

  reset(): void {
    this.#at = 0;
  }

  #grow(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.max(2 * this.#buffer.length, this.#at + bytes));
    larger.set(this.#buffer.subarray(0, this.#at));
    this.#buffer = larger;
    this.#view = new DataView(larger.buffer);
  }

  /** Takes integers up to 2^53; a negative one takes ten bytes, as 64-bit two's complement. */
  #varint(value: number): void {
    this.#grow(10);
    if (value < 0) return this.#negative(value);
    while (value > 127) {
      this.#buffer[this.#at++] = (value % 128) | 128;
      value = Math.floor(value / 128);
    }
    this.#buffer[this.#at++] = value;
  }

  #negative(value: number): void {
    let rest = BigInt.asUintN(64, BigInt(value));
    for (; rest > 127n; rest >>= 7n) this.#buffer[this.#at++] = Number(rest & 127n) | 128;
    this.#buffer[this.#at++] = Number(rest);
  }

  /** One byte is reserved for the length of everything since `from`. */
  #setLength(from: number): void {
    const length = this.#at - from;
    if (length < 128) {
      this.#buffer[from - 1] = length;
      return;
    }
    const more = Math.ceil(Math.log2(length + 1) / 7) - 1;
    this.#grow(more);
    this.#buffer.copyWithin(from + more, from, this.#at);
    const end = this.#at + more;
    this.#at = from - 1;
    this.#varint(length);
    this.#at = end;
  }

  /**
   * Most texts are short ASCII: this loop is several times faster than an encoder. Returns false for others.
   */
  #ascii(value: string): boolean {
    if (value.length > SHORT) return false;
    const buffer = this.#buffer, at = this.#at;
    for (let i = 0; i < value.length; i++) {
      const code = value.charCodeAt(i);
      if (code > 127) return false;
      buffer[at + i] = code;
    }
    this.#at += value.length;
    return true;
  }
}

export class ProtoError extends Error {}

/** Integers are signed 64-bit numbers; everything with a length is bytes. */
export type ProtoFields = ReadonlyMap<number, readonly (number | Uint8Array)[]>;

export function readProto(bytes: Uint8Array): ProtoFields {
  const fields = new Map<number, (number | Uint8Array)[]>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = (): number => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= bytes.length) throw new ProtoError("it ends within a number");
      const byte = bytes[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
    throw new ProtoError("a number has more than ten bytes");
  };
  const take = (length: number): number => {
    if (length < 0 || at + length > bytes.length) throw new ProtoError("a field is longer than its message");
    at += length;
    return at - length;
  };
  while (at < bytes.length) {
    const tag = varint();
    const field = Math.floor(tag / 8);
    if (tag < 8) throw new ProtoError(`field number ${field}`);
    const list = fields.get(field) ?? [];
    fields.set(field, list);
    switch (tag % 8) {
      case VARINT:
        list.push(varint());
        break;
      case FIXED64:
        list.push(view.getFloat64(take(8), true));
        break;
      case BYTES: {
        const from = take(varint());
        list.push(bytes.subarray(from, at));
        break;
      }
      case FIXED32:
        list.push(view.getUint32(take(4), true));
        break;
      default:
        throw new ProtoError(`wire type ${tag % 8}`);
    }
  }
  return fields;
}

// A missing field has the format's default value.

export function textField(fields: ProtoFields, field: number): string {
  const value = fields.get(field)?.at(-1);
  return value instanceof Uint8Array ? decoder.decode(value) : "";
}

export const textFields = (fields: ProtoFields, field: number): string[] =>
  bytesOf(fields, field).map((bytes) => decoder.decode(bytes));

export function numberField(fields: ProtoFields, field: number): number {
  const value = fields.get(field)?.at(-1);
  return typeof value === "number" ? value : 0;
}

export const messageField = (fields: ProtoFields, field: number): ProtoFields | null => {
  const bytes = bytesOf(fields, field).at(-1);
  return bytes ? readProto(bytes) : null;
};

export const messageFields = (fields: ProtoFields, field: number): ProtoFields[] =>
  bytesOf(fields, field).map(readProto);

const bytesOf = (fields: ProtoFields, field: number): Uint8Array[] =>
  (fields.get(field) ?? []).filter((value) => value instanceof Uint8Array);

const decoder = new TextDecoder();
