// Writes values as a protocol 2 pickle, in the few operations that torch.load(weights_only=True) reads.
import { UserError } from "../base/errors.ts";
import {
  DTYPE_BYTES,
  OrderedDict,
  type Storage,
  STORAGE_NAMES,
  TensorData,
  TORCH_DTYPES,
  Tuple,
  type Value,
} from "./value.ts";

const MAX_DEPTH = 200;

export function writePickle(root: Value): { bytes: Uint8Array; storages: Storage[] } {
  const writer = new PickleWriter();
  writer.raw([0x80, 2]);
  writer.value(root, 0);
  writer.op(".");
  return { bytes: writer.finish(), storages: [...writer.storages.keys()] };
}

class PickleWriter {
  #bytes = new Uint8Array(1 << 16);
  #length = 0;
  /** Each storage is saved as one element type. */
  readonly storages = new Map<Storage, { key: string; dtype: string }>();

  finish(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }
  #grow(length: number): number {
    const from = this.#length;
    if (from + length > this.#bytes.length) {
      const bigger = new Uint8Array(2 * (from + length));
      bigger.set(this.#bytes.subarray(0, from));
      this.#bytes = bigger;
    }
    this.#length += length;
    return from;
  }
  raw(bytes: ArrayLike<number>): void {
    const from = this.#grow(bytes.length);
    this.#bytes.set(bytes, from);
  }
  op(code: string): void {
    this.raw([code.charCodeAt(0)]);
  }
  #u32(value: number): void {
    this.raw([value & 255, value >>> 8 & 255, value >>> 16 & 255, value >>> 24]);
  }
  #text(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.op("X");
    this.#u32(bytes.length);
    this.raw(bytes);
  }
  #global(module: string, name: string): void {
    this.raw(new TextEncoder().encode(`c${module}\n${name}\n`));
  }

  value(value: Value, depth: number): void {
    if (depth > MAX_DEPTH) {
      throw new UserError(
        "checkpoint",
        `a value to be saved is nested more than ${MAX_DEPTH} deep, or contains itself.`,
      );
    }
    if (value === null) this.op("N");
    else if (typeof value === "boolean") this.raw([value ? 0x88 : 0x89]);
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "bigint") this.#integer(value);
    else if (typeof value === "string") this.#text(value);
    else if (value instanceof Uint8Array) this.#binary(value);
    else if (value instanceof TensorData) this.#tensor(value);
    else if (value instanceof Tuple) this.#sequence("(", value.items, "t", depth);
    else if (Array.isArray(value)) this.#list(value, depth);
    else if (value instanceof Map) this.#dict(value, depth);
    else throw new UserError("checkpoint", `a ${value.constructor.name} can't be saved in a checkpoint.`);
  }

  #sequence(open: string, items: Value[], close: string, depth: number): void {
    this.op(open);
    for (const item of items) this.value(item, depth + 1);
    this.op(close);
  }
  #list(items: Value[], depth: number): void {
    this.op("]");
    if (items.length > 0) this.#sequence("(", items, "e", depth);
  }
  #dict(map: Map<Value, Value>, depth: number): void {
    if (map instanceof OrderedDict) this.#emptyOrderedDict();
    else this.op("}");
    if (map.size > 0) this.#sequence("(", [...map].flat(1) as Value[], "u", depth);
  }
  #emptyOrderedDict(): void {
    this.#global("collections", "OrderedDict");
    this.raw([0x29, 0x52]); // empty tuple, call
  }
  #number(value: number): void {
    if (Number.isSafeInteger(value) && !Object.is(value, -0)) return this.#integer(BigInt(value));
    this.op("G");
    const from = this.#grow(8);
    new DataView(this.#bytes.buffer).setFloat64(from, value, false);
  }
  #integer(value: bigint): void {
    if (value === BigInt.asIntN(32, value)) {
      this.op("J");
      return this.#u32(Number(BigInt.asUintN(32, value)));
    }
    const bytes: number[] = [];
    // The last byte carries the sign.
    let rest = value;
    do {
      bytes.push(Number(rest & 255n));
      rest >>= 8n;
    } while (rest !== (bytes[bytes.length - 1] & 0x80 ? -1n : 0n));
    if (bytes.length > 255) {
      throw new UserError("checkpoint", "an integer to be saved is longer than 255 bytes.");
    }
    this.raw([0x8a, bytes.length, ...bytes]);
  }
  /** Protocol 2 has no bytes; Python itself writes them as latin1 text. */
  #binary(bytes: Uint8Array): void {
    this.#global("_codecs", "encode");
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    this.#text(text);
    this.#text("latin1");
    this.raw([0x86, 0x52]); // pair, call
  }

  #tensor(tensor: TensorData): void {
    const typed = STORAGE_NAMES[tensor.dtype];
    this.#global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    this.op("(");
    this.#storage(tensor.storage, typed ? tensor.dtype : "u8", typed);
    this.#number(tensor.offset);
    this.#sequence("(", [...tensor.shape], "t", 0);
    this.#sequence("(", [...tensor.strides], "t", 0);
    this.value(tensor.requiresGrad, 0);
    this.#emptyOrderedDict(); // backward hooks
    if (!typed) this.#global("torch", TORCH_DTYPES[tensor.dtype]);
    this.raw([0x74, 0x52]); // tuple, call
  }
  #storage(storage: Storage, dtype: keyof typeof DTYPE_BYTES, typed?: string): void {
    const class_ = typed ?? "UntypedStorage";
    let saved = this.storages.get(storage);
    if (!saved) this.storages.set(storage, saved = { key: String(this.storages.size), dtype: class_ });
    if (saved.dtype !== class_) {
      throw new UserError(
        "checkpoint",
        `two tensors to be saved share memory as ${saved.dtype} and as ${class_}, which PyTorch can't load.`,
      );
    }
    this.op("(");
    this.#text("storage");
    this.#global(typed ? "torch" : "torch.storage", class_);
    this.#text(saved.key);
    this.#text("cpu");
    this.#number(Math.floor(storage.byteLength / DTYPE_BYTES[dtype]));
    this.raw([0x74, 0x51]); // tuple, persistent id
  }
}
