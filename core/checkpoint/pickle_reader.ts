// A pickle as data: a stack machine that builds values and can call nothing. Imports value, pickle_names, pickle_cost.
import { COST, costOfCall, EACH, LEAST_MEMORY } from "./pickle_cost.ts";
import { asKey, build, lookUp, plain, type Refuse, setState } from "./pickle_names.ts";
import { type TensorData, type TorchName, Tuple, type Value } from "./value.ts";

export interface PickleContext {
  refuse: Refuse;
  /** A persistent id (torch: a storage) as a one-dimensional tensor over it. */
  storage: (id: Value[]) => TensorData;
  /** Bytes of memory that its values may take, by estimate; a hostile pickle is stopped before it eats the machine. */
  memory?: number;
}

const MAX_INTEGER_BYTES = 1024;

/** The value in `bytes`, and where the pickle ended. */
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
  /** Before the memory is taken. */
  spend(bytes: number): void {
    if ((this.#memory -= bytes) >= 0) return;
    this.refuse("its pickle holds more single values than hpctrain will read; keep large data in tensors");
  }
  refuse(what: string): never {
    return this.context.refuse(what);
  }
  /** Steps over `length` bytes and says where they began. */
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
    this.spend(EACH.character * length);
    return this.#text.decode(this.bytes.subarray(from, this.at));
  }
  line(): string {
    const end = this.bytes.indexOf(10, this.at);
    if (end < 0) this.refuse("its pickle is cut off");
    const text = this.text(end - this.at);
    this.at++;
    return text;
  }
  /** Values below the innermost mark belong to somebody else. */
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
    this.spend(EACH.item * (this.stack.length - mark));
    return this.stack.splice(mark);
  }
  /** The last `count` values as a tuple. */
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
  /** Two's complement, little end first. */
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
    this.spend((target.length === 0 ? EACH.firstItem : 0) + EACH.item * items.length);
    for (const item of items) target.push(item);
  }
  setItems(items: Value[]): void {
    const target = this.top();
    if (!(target instanceof Map) || items.length % 2 !== 0) {
      return this.refuse("its pickle is corrupt: it sets keys of something that is not a dict");
    }
    this.spend(EACH.entry / 2 * items.length);
    for (let i = 0; i < items.length; i += 2) target.set(asKey(items[i], this.context.refuse), items[i + 1]);
  }
  addItems(items: Value[]): void {
    const target = this.top();
    if (!(target instanceof Set)) {
      return this.refuse("its pickle is corrupt: it adds to something that is not a set");
    }
    this.spend(EACH.entry * items.length);
    for (const item of items) target.add(item);
  }
  stackGlobal(): void {
    const [name, module] = [this.pop(), this.pop()];
    if (typeof name !== "string" || typeof module !== "string") {
      return this.refuse("its pickle is corrupt: it names something without a name");
    }
    this.global(module, name);
  }
  /** The same name is the same value: a pickle says it again with each tensor. */
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
  on(0x95, (m) => m.skip(8)); // FRAME: only a hint for buffered reading
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
  on("i", (m) => m.global(m.line(), m.line())); // INST: only to name what it would call
  on("R", (m) => m.call());
  on(0x81, (m) => m.call()); // NEWOBJ: the same for the few types we know
  on("b", (m) => m.setState());
  on("Q", (m) => m.persistent());
  return operations;
}

function frozenSet(m: Machine): Value {
  const items = m.popMark();
  m.spend(EACH.entry * items.length);
  return new Set(items);
}

const OPERATIONS = table();
