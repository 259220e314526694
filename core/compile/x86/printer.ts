// All kernels of one piece of code share the assembler, the constants, the symbols and the stack frame.
import type { Isa } from "../../../ffi/machine.ts";
import type { Code, SlotPlace } from "../kernel.ts";
import { Assembler, type Label, type Passage, R12, R13, R14, R15, RBP, RBX, RDI, RSP } from "./assembler.ts";
import { type MemoryOperand } from "./encodings.ts";

/** Hold the addresses of the table and of the constants throughout. */
export const TABLE = RBX, CONSTANTS = R15;

const SAVED = [RBX, RBP, R12, R13, R14, R15];
/** The seven arguments of a call that go over the stack stand at its end. */
const ARGUMENTS = 64;
/** Less than what lies between a thread's stack and its end, and more than any kernel needs. */
const MOST_FRAME = 32 << 10;

/** A spot's unit where its table slot is meant, and the spot whose number is that of the part. */
const SLOT = 0, PART = -1;

/** Code of a kernel, to be copied for others. */
export interface PrintedCode {
  readonly passage: Passage;
  readonly places: readonly SlotPlace[];
  readonly part: number;
  /** Scratch memory that it takes, and how far that of the next part is. */
  readonly scratch: readonly (readonly [bytes: number, apart: number])[];
}

export class Printer {
  readonly asm: Assembler;
  readonly #constants: number[] = [];
  readonly #constantAt = new Map<string, number>();
  readonly #symbols: string[] = [];
  #frame = ARGUMENTS;
  #largest = ARGUMENTS;
  #scratch = 0;
  #part = 0;
  #taken: (readonly [bytes: number, apart: number])[] | null = null;
  readonly #frames: number[] = [];
  readonly #later: { readonly begin: Label; readonly body: () => void }[] = [];

  constructor(isa: Isa, readonly slots: number) {
    this.asm = new Assembler(isa);
  }

  get isa(): Isa {
    return this.asm.isa;
  }

  /** Each body prints the kernels of a function. */
  print(bodies: readonly (() => void)[]): Code {
    const { asm } = this;
    const entries = bodies.map((body) => {
      const entry = asm.length;
      this.#function(body);
      return entry;
    });
    for (let one = this.#later.shift(); one; one = this.#later.shift()) {
      asm.bind(one.begin);
      this.#function(one.body);
    }
    for (const frame of this.#frames) asm.patch(frame, this.#largest + 64);
    if (this.#largest > MOST_FRAME) {
      throw new Error(`internal: a kernel wants ${this.#largest} bytes of stack.`);
    }
    while (this.#constants.length % 64 !== 0) this.#constants.push(0);
    return {
      bytes: asm.bytes(),
      entries,
      constants: Uint8Array.from(this.#constants),
      constantsSlot: this.slots,
      symbols: this.#symbols,
      scratchBytes: this.#scratch,
    };
  }
  #function(body: () => void): void {
    const { asm } = this;
    SAVED.forEach((register) => asm.push(register));
    asm.move(RBP, RSP);
    this.#frames.push(asm.subtractPatched(RSP));
    asm.and(RSP, -64);
    asm.move(TABLE, RDI);
    asm.load(CONSTANTS, this.slot(this.slots));
    body();
    asm.clearUpper();
    asm.move(RSP, RBP);
    SAVED.toReversed().forEach((register) => asm.pop(register));
    asm.leave();
  }
  /** A function of its own behind this one, which is given the table, too. */
  later(body: () => void): Label {
    const begin = this.asm.label();
    this.#later.push({ begin, body });
    return begin;
  }
  /** `body` is printed for threads: its scratch memory is its own. */
  asPart(part: number, body: () => void): void {
    this.#part = part;
    body();
    this.#part = 0;
  }

  slot(slot: number, spot?: number): MemoryOperand {
    const disp = 8 * slot;
    return spot === undefined ? { base: TABLE, disp } : { base: TABLE, disp, spot, unit: SLOT };
  }

  /** Puts a place's address into a register, or one so many bytes behind it; `unit` is the bytes of an element. */
  place(register: number, { slot, offset, spot }: SlotPlace, unit: number, more = 0): void {
    this.asm.load(register, this.slot(slot, spot));
    const bytes = unit * offset + more;
    if (spot === undefined) this.asm.add(register, bytes);
    else this.asm.addMoving(register, bytes, spot, unit);
  }

  /** Prints a kernel whose places have spots. */
  write(places: readonly SlotPlace[], body: () => void): PrintedCode {
    const scratch: (readonly [number, number])[] = this.#taken = [];
    const passage = this.asm.passage(body);
    this.#taken = null;
    return { passage, places, part: this.#part, scratch };
  }
  /** The same code for other places. */
  copy({ passage, places, part, scratch }: PrintedCode, others: readonly SlotPlace[]): void {
    this.asm.copy(passage, (spot, unit) => {
      if (spot === PART) return unit * (this.#part - part);
      const from = places[spot], to = others[spot];
      return unit === SLOT ? 8 * (to.slot - from.slot) : unit * (to.offset - from.offset);
    });
    for (const [bytes, stride] of scratch) this.#takeScratch(bytes, stride);
  }

  /** The address of scratch memory stands behind the constants' one. */
  scratchSlot(): MemoryOperand {
    this.#scratch = Math.max(this.#scratch, 64);
    return this.slot(this.slots + 1);
  }
  /**
   * Puts the address of so much scratch memory into a register. Kernels that don't run together use the same; parts that
   * do lie `stride` bytes from each other, whatever each of them uses.
   */
  scratch(register: number, bytes: number, stride: number): void {
    if (bytes > stride) {
      throw new Error(`internal: ${bytes} bytes of scratch memory are more than ${stride}.`);
    }
    this.asm.load(register, this.scratchSlot());
    this.asm.addMoving(register, this.#takeScratch(bytes, stride), PART, stride);
    this.#taken?.push([bytes, stride]);
  }
  #takeScratch(bytes: number, stride: number): number {
    const begin = 64 + this.#part * stride;
    this.#scratch = Math.max(this.#scratch, begin + bytes);
    return begin;
  }

  symbol(name: string): MemoryOperand {
    let at = this.#symbols.indexOf(name);
    if (at < 0) at = this.#symbols.push(name) - 1;
    return this.slot(this.slots + 2 + at);
  }

  /** Bytes of the frame until `release`; where they begin from rsp. */
  reserve(bytes: number): number {
    const at = this.#frame;
    this.#frame += Math.ceil(bytes / 64) * 64;
    this.#largest = Math.max(this.#largest, this.#frame);
    return at;
  }
  /** Runs `body` and gives back what it reserved. */
  withFrame<T>(body: () => T): T {
    const before = this.#frame;
    try {
      return body();
    } finally {
      this.#frame = before;
    }
  }

  /** Words of 32 bits in the constants' memory, each content once. */
  words(words: readonly number[]): MemoryOperand {
    const key = words.join();
    let at = this.#constantAt.get(key);
    if (at === undefined) {
      at = this.#constants.length;
      this.#constantAt.set(key, at);
      for (const word of words) {
        this.#constants.push(word & 255, word >> 8 & 255, word >> 16 & 255, word >>> 24);
      }
    }
    return { base: CONSTANTS, disp: at };
  }
  /** The same 32 bits in all lanes, as the last operand of an instruction. */
  repeated(bits: number): MemoryOperand {
    if (this.isa === "avx512") return { ...this.words([bits]), broadcast: true };
    return this.words(Array<number>(this.asm.lanes).fill(bits));
  }
  /** A vector whose lanes are `lane(i)`. */
  lanes(lane: (i: number) => number): MemoryOperand {
    return this.words(Array.from({ length: this.asm.lanes }, (_, i) => lane(i)));
  }
}

const float = new Float32Array(1), word = new Uint32Array(float.buffer);

export function bitsOf(value: number): number {
  float[0] = value;
  return word[0];
}
