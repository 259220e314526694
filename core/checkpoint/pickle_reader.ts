// Reads a pickle as data: a stack machine builds known values and calls nothing. It refuses every name that
// it does not know.
import {
  DTYPE_BYTES,
  DTYPE_NAMES,
  type Key,
  OrderedDict,
  STORAGE_DTYPES,
  TensorData,
  TorchName,
  Tuple,
  type Value,
} from "./value.ts";
import { COST, COST_OF, costOfCall, LEAST_MEMORY } from "./memory_cost.ts";

type Refuse = (what: string) => never;

type Builder = (args: Value[], refuse: Refuse) => Value;

const BUILDERS: ReadonlyMap<string, Builder> = new Map<string, Builder>([
  ["torch._utils._rebuild_tensor", rebuildTensor],
  ["torch._utils._rebuild_tensor_v2", rebuildTensor],
  ["torch._utils._rebuild_tensor_v3", rebuildTensor],
  ["torch._utils._rebuild_parameter", rebuildParameter],
  ["torch._utils._rebuild_parameter_with_state", rebuildParameter],
  ["collections.OrderedDict", orderedDict],
  ["collections.defaultdict", () => new Map()],
  ["builtins.set", ([items], refuse) => new Set(list(items, refuse))],
  ["builtins.frozenset", ([items], refuse) => new Set(list(items, refuse))],
  [
    "builtins.bytearray",
    ([bytes = new Uint8Array()], refuse) =>
      bytes instanceof Uint8Array ? bytes : refuse("has a bytearray of no bytes"),
  ],
  ["torch.Size", ([items = new Tuple([])], refuse) => new Tuple(list(items, refuse))],
  ["torch.device", device],
  ["_codecs.encode", encode],
  [
    "numpy.dtype",
    ([name], refuse) =>
      typeof name === "string" ? new TorchName(`numpy ${name}`) : refuse("has a numpy type without a name"),
  ],
  ["numpy.core.multiarray.scalar", numpyScalar],
  ["numpy._core.multiarray.scalar", numpyScalar],
]);

const VALUES: ReadonlySet<string> = new Set([
  ...STORAGE_DTYPES.keys(),
  ...DTYPE_NAMES.keys(),
  "builtins.list",
  "builtins.dict",
  "builtins.int",
]);

function lookUp(module: string, name: string, refuse: Refuse): TorchName {
  const full = `${module === "__builtin__" ? "builtins" : module}.${name}`;
  if (BUILDERS.has(full) || VALUES.has(full)) return new TorchName(full);
  if (/^torch\.\w+Storage$|^torch\.(float8|float4|bits|quint|qint)/.test(full)) {
    return refuse(
      `holds tensors of the type ${full}, which hpctrain can't read yet; convert them in PyTorch, e.g. with .float()`,
    );
  }
  const shown = JSON.stringify(full.slice(0, 120)).slice(1, -1);
  return refuse(
    `its pickle would call ${shown}, and hpctrain never executes a pickle: it reads tensors, numbers, text and containers only. ` +
      'If you trust the file, save just the weights in Python: torch.save(model.state_dict(), "weights.pt")',
  );
}

function build(callee: Value, args: Value, refuse: Refuse): Value {
  const builder = callee instanceof TorchName ? BUILDERS.get(callee.name) : undefined;
  if (!builder || !(args instanceof Tuple)) {
    return refuse("its pickle calls something that is not a function hpctrain knows");
  }
  return builder(args.items, refuse);
}

/** Only kinds whose state adds nothing to the values are let through. */
function setState(target: Value, state: Value, refuse: Refuse): void {
  // These carry a state dict's _metadata or a Parameter's attributes.
  if (target instanceof OrderedDict || target instanceof TensorData) return;
  if (target instanceof TorchName && target.name.startsWith("numpy ")) {
    if (state instanceof Tuple && state.items[1] === ">") refuse("holds big-endian numpy numbers");
    return;
  }
  refuse(
    "its pickle sets the state of an object that hpctrain does not know, and it never executes a pickle",
  );
}

function asKey(value: Value, refuse: Refuse): Key {
  if (value === null || typeof value !== "object" || value instanceof Tuple) return value as Key;
  return refuse("its pickle has a dict with a key that can't be one");
}

function rebuildTensor(args: Value[], refuse: Refuse): TensorData {
  const [base, offset, sizes, steps, requiresGrad, , type] = args;
  const shape = counts(sizes, refuse);
  const strides = counts(steps, refuse);
  if (!(base instanceof TensorData)) return refuse("its pickle has a tensor without a storage");
  if (shape.length !== strides.length || shape.length > 64) {
    return refuse("its pickle has a tensor whose shape and strides disagree");
  }
  const dtype = type instanceof TorchName ? DTYPE_NAMES.get(type.name) : base.dtype;
  if (dtype === undefined) return refuse("its pickle has a tensor of an unknown type");
  const tensor = new TensorData(
    dtype,
    shape,
    base.storage,
    strides,
    count(offset, refuse),
    requiresGrad === true,
  );
  const last = shape.reduce((sum, size, i) => sum + (size - 1) * strides[i], tensor.offset);
  if (tensor.numel > 0 && !((last + 1) * DTYPE_BYTES[dtype] <= base.storage.byteLength)) {
    return refuse(
      `its pickle has a tensor of shape [${shape}] that reaches beyond its ${base.storage.byteLength} bytes of storage`,
    );
  }
  return tensor;
}

function rebuildParameter([tensor, requiresGrad]: Value[], refuse: Refuse): TensorData {
  if (!(tensor instanceof TensorData)) return refuse("its pickle has a parameter without a tensor");
  const { dtype, shape, storage, strides, offset } = tensor;
  return new TensorData(dtype, shape, storage, strides, offset, requiresGrad === true);
}

function orderedDict([pairs]: Value[], refuse: Refuse): OrderedDict {
  const result = new OrderedDict();
  for (const pair of pairs === undefined ? [] : list(pairs, refuse)) {
    const [key, value] = list(pair, refuse);
    if (value === undefined) refuse("its pickle has an OrderedDict of something that is not pairs");
    result.set(asKey(key, refuse), value);
  }
  return result;
}

/** A list is refused: writing out one that holds itself many times has no end. */
function device(args: Value[], refuse: Refuse): TorchName {
  const plain = args.every((arg) => typeof arg === "string" || typeof arg === "number");
  return plain && args.length <= 2
    ? new TorchName(`device(${args.join(":")})`)
    : refuse("its pickle has a device that is not a name and a number");
}

/** Protocol 2 has no bytes: they are latin1 text. */
function encode([text, encoding]: Value[], refuse: Refuse): Uint8Array {
  if (typeof text !== "string" || encoding !== "latin1") {
    return refuse("its pickle has bytes in an encoding other than latin1");
  }
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

function numpyScalar([type, bytes]: Value[], refuse: Refuse): Value {
  const name = type instanceof TorchName ? type.name : "";
  if (bytes instanceof Uint8Array && name.startsWith("numpy ")) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const code = name.slice(6);
    const fits = Number(code.slice(1)) === bytes.length;
    if (fits && code === "f8") return view.getFloat64(0, true);
    if (fits && code === "f4") return view.getFloat32(0, true);
    if (fits && code === "i8") return plain(view.getBigInt64(0, true));
    if (fits && code === "i4") return view.getInt32(0, true);
    if (fits && code === "b1") return view.getUint8(0) !== 0;
  }
  return refuse("holds a numpy number of a kind that hpctrain can't read; save it as a Python float or int");
}

function plain(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function list(value: Value, refuse: Refuse): Value[] {
  if (value instanceof Tuple) return value.items;
  return Array.isArray(value) ? value : refuse("its pickle has something else where a list should stand");
}

function count(value: Value, refuse: Refuse): number {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
  return refuse("its pickle has a tensor with a size that is not a count");
}

function counts(value: Value, refuse: Refuse): number[] {
  return list(value, refuse).map((item) => count(item, refuse));
}

interface PickleContext {
  refuse: Refuse;
  /** torch's persistent id is a storage. */
  storage: (id: Value[]) => TensorData;
  /** The estimated limit in bytes stops a hostile pickle before it takes all memory. */
  memory?: number;
}

const MAX_INTEGER_BYTES = 1024;

export function readPickle(bytes: Uint8Array, context: PickleContext): { value: Value; end: number } {
  const machine = new Machine(bytes, context);
  for (;;) {
    const code = machine.byte();
    machine.spend(COST[code]);
    if (code === STOP) return { value: machine.pop(), end: machine.at };
    const operation = OPERATIONS[code];
    if (!operation) {
      const shown = code > 32 && code < 127 ? `"${String.fromCharCode(code)}"` : `0x${code.toString(16)}`;
      context.refuse(
        `its pickle is corrupt or of a kind that torch.save does not write (operation ${shown} at byte ${
          machine.at - 1
        })`,
      );
    }
    operation(machine);
  }
}

const STOP = 0x2e;

class Machine {
  at = 0;
  readonly stack: Value[] = [];
  readonly marks: number[] = [];
  readonly memo = new Map<number, Value>();
  readonly view: DataView;
  readonly #text = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #names = new Map<string, TorchName>();
  #memory: number;
  constructor(readonly bytes: Uint8Array, readonly context: PickleContext) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#memory = context.memory ?? LEAST_MEMORY;
  }
  spend(bytes: number): void {
    if ((this.#memory -= bytes) >= 0) return;
    this.refuse("its pickle holds more single values than hpctrain will read; keep large data in tensors");
  }
  refuse(what: string): never {
    return this.context.refuse(what);
  }
  skip(length: number): number {
    const from = this.at;
    if (from + length > this.bytes.length) this.refuse("its pickle is cut off");
    this.at += length;
    return from;
  }
  byte(): number {
    return this.bytes[this.skip(1)];
  }
  u16(): number {
    return this.view.getUint16(this.skip(2), true);
  }
  u32(): number {
    return this.view.getUint32(this.skip(4), true);
  }
  u64(): number {
    return Number(this.view.getBigUint64(this.skip(8), true));
  }
  take(length: number): Uint8Array {
    const from = this.skip(length);
    return this.bytes.subarray(from, this.at);
  }
  text(length: number): string {
    const from = this.skip(length);
    this.spend(COST_OF.character * length);
    return this.#text.decode(this.bytes.subarray(from, this.at));
  }
  line(): string {
    const end = this.bytes.indexOf(10, this.at);
    if (end < 0) this.refuse("its pickle is cut off");
    const text = this.text(end - this.at);
    this.at++;
    return text;
  }
  /** Values below the innermost mark belong to an outer one. */
  top(): Value {
    if (this.stack.length <= (this.marks.at(-1) ?? 0)) {
      this.refuse("its pickle is corrupt: it takes more than it made");
    }
    return this.stack[this.stack.length - 1];
  }
  pop(): Value {
    const value = this.top();
    this.stack.pop();
    return value;
  }
  popMark(): Value[] {
    const mark = this.marks.pop();
    if (mark === undefined) this.refuse("its pickle is corrupt: it closes what it never opened");
    this.spend(COST_OF.item * (this.stack.length - mark));
    return this.stack.splice(mark);
  }
  tuple(count: number): void {
    const items = Array.from({ length: count }, () => this.pop());
    this.stack.push(new Tuple(items.reverse()));
  }
  remember(slot: number): void {
    this.memo.set(slot, this.top());
  }
  recall(slot: number): void {
    const value = this.memo.get(slot);
    if (value === undefined) this.refuse("its pickle is corrupt: it refers to a value that it never made");
    this.stack.push(value);
  }
  /** The bytes are two's complement, little end first. */
  integer(length: number): number | bigint {
    if (length > MAX_INTEGER_BYTES) this.refuse(`its pickle has an integer of ${length} bytes`);
    if (length === 8) return plain(this.view.getBigInt64(this.skip(8), true));
    this.spend(2 * length);
    const bytes = this.take(length);
    return plain(BigInt.asIntN(8 * length, BigInt(`0x0${bytes.toReversed().toHex()}`)));
  }
  append(items: Value[]): void {
    const target = this.top();
    if (!Array.isArray(target)) {
      return this.refuse("its pickle is corrupt: it appends to something that is not a list");
    }
    this.spend((target.length === 0 ? COST_OF.firstItem : 0) + COST_OF.item * items.length);
    for (const item of items) target.push(item);
  }
  setItems(items: Value[]): void {
    const target = this.top();
    if (!(target instanceof Map) || items.length % 2 !== 0) {
      return this.refuse("its pickle is corrupt: it sets keys of something that is not a dict");
    }
    this.spend(COST_OF.entry / 2 * items.length);
    for (let i = 0; i < items.length; i += 2) target.set(asKey(items[i], this.context.refuse), items[i + 1]);
  }
  addItems(items: Value[]): void {
    const target = this.top();
    if (!(target instanceof Set)) {
      return this.refuse("its pickle is corrupt: it adds to something that is not a set");
    }
    this.spend(COST_OF.entry * items.length);
    for (const item of items) target.add(item);
  }
  stackGlobal(): void {
    const [name, module] = [this.pop(), this.pop()];
    if (typeof name !== "string" || typeof module !== "string") {
      return this.refuse("its pickle is corrupt: it names something without a name");
    }
    this.global(module, name);
  }
  /** A pickle repeats a name with each tensor, so equal names are one value. */
  global(module: string, name: string): void {
    const full = `${module} ${name}`;
    const known = this.#names.get(full) ?? lookUp(module, name, this.context.refuse);
    this.#names.set(full, known);
    this.stack.push(known);
  }
  call(): void {
    const args = this.pop();
    this.spend(costOfCall(args));
    this.stack.push(build(this.pop(), args, this.context.refuse));
  }
  setState(): void {
    const state = this.pop();
    setState(this.top(), state, this.context.refuse);
  }
  persistent(): void {
    const id = this.pop();
    if (!(id instanceof Tuple)) {
      return this.refuse("its pickle refers to something outside that is not a storage");
    }
    this.stack.push(this.context.storage(id.items));
  }
}

type Operation = (m: Machine) => void;

function table(): Operation[] {
  const operations: Operation[] = [];
  const on = (code: string | number, operation: Operation) => {
    operations[typeof code === "string" ? code.charCodeAt(0) : code] = operation;
  };
  const push = (code: string | number, make: (m: Machine) => Value) => on(code, (m) => m.stack.push(make(m)));
  on(0x80, (m) => m.byte() > 5 && m.refuse("its pickle has a protocol newer than 5")); // PROTO
  on(0x95, (m) => m.skip(8)); // FRAME is only a hint for buffered reading.
  on("(", (m) => m.marks.push(m.stack.length));
  on("0", (m) => m.pop());
  on("1", (m) => m.popMark());
  push("2", (m) => m.top());
  push("N", () => null);
  push(0x88, () => true);
  push(0x89, () => false);
  push("J", (m) => m.view.getInt32(m.skip(4), true));
  push("K", (m) => m.byte());
  push("M", (m) => m.u16());
  push("G", (m) => m.view.getFloat64(m.skip(8), false));
  push(0x8a, (m) => m.integer(m.byte()));
  push(0x8b, (m) => m.integer(m.u32()));
  push("X", (m) => m.text(m.u32()));
  push(0x8c, (m) => m.text(m.byte()));
  push(0x8d, (m) => m.text(m.u64()));
  push("T", (m) => m.text(m.u32())); // Python 2's str
  push("U", (m) => m.text(m.byte()));
  push("B", (m) => m.take(m.u32()));
  push("C", (m) => m.take(m.byte()));
  push(0x8e, (m) => m.take(m.u64()));
  push(0x96, (m) => m.take(m.u64()));
  push("]", () => []);
  push("}", () => new Map());
  push(")", () => new Tuple([]));
  push(0x8f, () => new Set());
  push("l", (m) => m.popMark());
  push("t", (m) => new Tuple(m.popMark()));
  push(0x91, (m) => frozenSet(m));
  on(0x85, (m) => m.tuple(1));
  on(0x86, (m) => m.tuple(2));
  on(0x87, (m) => m.tuple(3));
  on("a", (m) => m.append([m.pop()]));
  on("e", (m) => m.append(m.popMark()));
  on("s", (m) => m.setItems([m.pop(), m.pop()].reverse()));
  on("u", (m) => m.setItems(m.popMark()));
  on(0x90, (m) => m.addItems(m.popMark()));
  on("q", (m) => m.remember(m.byte()));
  on("r", (m) => m.remember(m.u32()));
  on(0x94, (m) => m.remember(m.memo.size));
  on("h", (m) => m.recall(m.byte()));
  on("j", (m) => m.recall(m.u32()));
  on("c", (m) => m.global(m.line(), m.line()));
  on(0x93, (m) => m.stackGlobal());
  on("i", (m) => m.global(m.line(), m.line())); // INST is read only to name what it would call.
  on("R", (m) => m.call());
  on(0x81, (m) => m.call()); // NEWOBJ does the same for the few types that are known here.
  on("b", (m) => m.setState());
  on("Q", (m) => m.persistent());
  return operations;
}

function frozenSet(m: Machine): Value {
  const items = m.popMark();
  m.spend(COST_OF.entry * items.length);
  return new Set(items);
}

const OPERATIONS = table();
