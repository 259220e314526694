// Gives the steps of a block registers and writes them. A value that is needed furthest in the future goes to the
// stack where registers run out.
import { RSP } from "./assembler.ts";
import { AVX2, AVX512, type MemoryOperand, VECTOR, type VectorOp } from "./encodings.ts";
import type { Printer } from "./printer.ts";
import type { StepOp, VectorStep, VectorValue } from "./steps.ts";

/** How a block's loads and stores are written: the loops know the addresses. */
export interface Accesses {
  load(access: number, to: number, temporary: () => number): void;
  store(access: number, from: number, temporary: () => number): void;
  /** After a call: mask registers are lost. */
  afterCall(): void;
  /** The last operand of an instruction: plain f32 of a whole vector. Null where the access needs a load. */
  operand(access: number): MemoryOperand | null;
}

const TWO: Partial<Record<StepOp, VectorOp>> = {
  add: VECTOR.vaddps,
  sub: VECTOR.vsubps,
  mul: VECTOR.vmulps,
  div: VECTOR.vdivps,
  min: VECTOR.vminps,
  max: VECTOR.vmaxps,
  and: VECTOR.vpand,
  andn: VECTOR.vpandn,
  or: VECTOR.vpor,
  xor: VECTOR.vpxor,
  addInt: VECTOR.vpaddd,
  subInt: VECTOR.vpsubd,
  scale: AVX512.vscalefps,
};
const ONE: Partial<Record<StepOp, VectorOp>> = {
  sqrt: VECTOR.vsqrtps,
  round: VECTOR.vroundps,
  toInt: VECTOR.vcvtps2dq,
  toFloat: VECTOR.vcvtdq2ps,
};
/** The register field of a shift says which one it is. */
const SHIFT: Partial<Record<StepOp, number>> = { shiftRight: 2, shiftRightSigned: 4, shiftLeft: 6 };
const COMMUTES = new Set<StepOp>(["add", "mul", "and", "or", "xor", "addInt"]);
const PINNED = { add: VECTOR.vaddps, max: VECTOR.vmaxps, or: VECTOR.vpor } as const;
const EFFECTS = new Set<StepOp>(["store", "accumulate", "call"]);
const BITWISE_SELECT = 0xca;
/** The mask register of comparisons; the loops have the others. */
export const TRUTH = 7;
const NONE = -1;

export class Allocation {
  readonly #registers: Int32Array;
  /** A value's place on the stack. */
  readonly #places: Int32Array;
  /** Steps that use a value, the next one last. */
  readonly #uses: number[][];
  readonly #owners: Int32Array;
  readonly #free: number[] = [];
  readonly #freePlaces: number[] = [];
  readonly #locked = new Set<number>();
  /** Free again when the step is written: until then it may read them. */
  readonly #temporaries: number[] = [];
  readonly #emptied: number[] = [];
  #kept: readonly { readonly register: number; readonly at: number }[] | null = null;
  #at = 0;

  constructor(
    readonly printer: Printer,
    readonly steps: readonly VectorStep[],
    readonly accesses: Accesses,
    /** Registers that the loops keep for themselves. */
    readonly pinned: readonly number[] = [],
  ) {
    const count = printer.asm.vectorRegisters;
    const held = new Set(steps.map((step) => step.held));
    this.#registers = new Int32Array(steps.length).fill(NONE);
    this.#places = new Int32Array(steps.length).fill(NONE);
    this.#owners = new Int32Array(count).fill(NONE);
    this.#uses = steps.map(() => []);
    for (let i = steps.length - 1; i >= 0; i--) {
      if (this.#isUnwanted(i)) continue;
      for (const arg of steps[i].args) {
        if (this.#uses[arg].at(-1) !== i) this.#uses[arg].push(i); // one that is there twice is one use
      }
    }
    for (let register = count - 1; register >= 0; register--) {
      if (!pinned.includes(register) && !held.has(register)) this.#free.push(register);
    }
  }

  emit(): void {
    this.printer.withFrame(() => {
      for (this.#at = 0; this.#at < this.steps.length; this.#at++) this.#step(this.#at);
    });
  }

  #vector(op: VectorOp, register: number, second: number, rm: number | MemoryOperand, imm?: number): void {
    this.printer.asm.vector(op, register, second, rm, imm === undefined ? undefined : { imm });
  }

  #step(i: number): void {
    const step = this.steps[i], { op, args } = step;
    this.#locked.clear();
    this.#free.push(...this.#temporaries.splice(0));
    this.#freePlaces.push(...this.#emptied.splice(0));
    if (op === "home" || this.#isUnwanted(i) || op === "load" && this.#isOperand(i)) return;
    if (op === "held") return this.#own(step.held!, i);
    const two = TWO[op], one = ONE[op], shift = SHIFT[op];
    if (two) this.#two(i, two);
    else if (one) {
      const [a] = args, from = this.#operand(a);
      this.#vector(one, this.#result(i), 0, from, step.imm);
    } else if (shift !== undefined) {
      const from = this.#inRegister(args[0]);
      this.#vector(VECTOR.shift, shift, this.#result(i), from, step.imm);
    } else if (op === "fma" || op === "fnma") this.#multiplyAdd(i);
    else if (op === "compare") this.#compare(i);
    else if (op === "select") this.#select(i);
    else if (op === "load") {
      const to = this.#result(i);
      this.accesses.load(step.access!, to, () => this.#temporary());
    } else if (op === "store") {
      const from = this.#inRegister(args[0]);
      this.accesses.store(step.access!, from, () => this.#temporary());
      this.#used(args[0]);
    } else if (op === "accumulate") this.#accumulate(i);
    else this.#call(i);
  }

  #isUnwanted(i: number): boolean {
    return this.#uses[i].length === 0 && !EFFECTS.has(this.steps[i].op);
  }

  // Registers.

  #take(): number {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    let victim = NONE, latest = -1;
    for (let register = 0; register < this.#owners.length; register++) {
      const owner = this.#owners[register];
      if (owner === NONE || this.#locked.has(register)) continue;
      const next = this.#uses[owner].at(-1) ?? Infinity;
      if (next > latest) [victim, latest] = [register, next];
    }
    if (victim === NONE) throw new Error("internal: a step needs more registers than there are.");
    this.#evict(victim);
    return victim;
  }
  #evict(register: number): void {
    const owner = this.#owners[register];
    if (this.#homeOf(owner) === null) {
      const place = this.#freePlaces.pop() ?? this.printer.reserve(this.printer.asm.vectorBytes);
      this.#places[owner] = place;
      this.#vector(VECTOR.storeUps, register, 0, { base: RSP, disp: place });
    }
    this.#owners[register] = NONE;
    this.#registers[owner] = NONE;
  }
  #isOperand(value: VectorValue): boolean {
    const step = this.steps[value];
    return step.op === "load" && this.#uses[value].length === 1 &&
      this.accesses.operand(step.access!) !== null && this.steps[this.#uses[value][0]].op !== "call";
  }
  #homeOf(value: VectorValue): MemoryOperand | null {
    const step = this.steps[value];
    if (step.home) return step.home;
    if (this.#places[value] !== NONE) return { base: RSP, disp: this.#places[value] };
    return null;
  }
  /** A temporary register is free again after the step. */
  #temporary(): number {
    const register = this.#take();
    this.#locked.add(register);
    this.#temporaries.push(register);
    return register;
  }
  /** A register, or the memory that the value lies in. */
  #operand(value: VectorValue): number | MemoryOperand {
    const register = this.#registers[value];
    if (register !== NONE) {
      this.#locked.add(register);
      return register;
    }
    const home = this.#homeOf(value);
    if (home) return home;
    const step = this.steps[value];
    if (step.op === "load") return this.accesses.operand(step.access!)!;
    throw new Error(`internal: step ${value} has no value.`);
  }
  #inRegister(value: VectorValue): number {
    const from = this.#operand(value);
    if (typeof from === "number") return from;
    const register = this.#take();
    this.#copy(register, from);
    this.#own(register, value);
    return register;
  }
  #copy(to: number, from: number | MemoryOperand): void {
    if (typeof from !== "number" && from.broadcast) {
      this.#vector(VECTOR.vbroadcastss, to, 0, { ...from, broadcast: false });
    } else if (to !== from) this.#vector(VECTOR.vmovups, to, 0, from);
  }
  #own(register: number, value: VectorValue): void {
    this.#owners[register] = value;
    this.#registers[value] = register;
    this.#locked.add(register);
  }
  /** This step has used the value; its last use gives its register back. */
  #used(value: VectorValue): void {
    const uses = this.#uses[value];
    if (uses.at(-1) === this.#at) uses.pop();
    if (uses.length > 0) return;
    const register = this.#registers[value];
    if (register !== NONE) {
      this.#owners[register] = NONE;
      this.#registers[value] = NONE;
      this.#locked.delete(register);
      this.#free.push(register);
    }
    this.#leavePlace(value);
  }
  #leavePlace(value: VectorValue): void {
    if (this.#places[value] !== NONE) this.#emptied.push(this.#places[value]);
    this.#places[value] = NONE;
  }
  /** The register of the step's own value. All operands must be fetched: the last uses among them give theirs back. */
  #result(i: number): number {
    for (const arg of this.steps[i].args) this.#used(arg);
    const register = this.#take();
    this.#own(register, i);
    return register;
  }
  #dies(value: VectorValue): boolean {
    return this.#uses[value].length === 1 && this.#registers[value] !== NONE;
  }
  /** The step's value in the register of an argument that dies here, or in a copy. */
  #destroyed(i: number, value: VectorValue): number {
    if (this.#dies(value)) {
      const register = this.#registers[value];
      this.#uses[value].pop();
      this.#registers[value] = NONE;
      this.#leavePlace(value);
      this.#own(register, i);
      for (const arg of this.steps[i].args) if (arg !== value) this.#used(arg);
      return register;
    }
    const from = this.#operand(value), to = this.#take();
    this.#copy(to, from);
    this.#own(to, i);
    for (const arg of this.steps[i].args) this.#used(arg);
    return to;
  }

  // Instructions.

  #two(i: number, op: VectorOp): void {
    let [a, b] = this.steps[i].args;
    if (this.#registers[a] === NONE && this.#registers[b] !== NONE && COMMUTES.has(this.steps[i].op)) {
      [a, b] = [b, a];
    }
    const first = this.#inRegister(a), second = this.#operand(b);
    this.#vector(op, this.#result(i), first, second);
  }

  #multiplyAdd(i: number): void {
    const { op, args: [a, b, c] } = this.steps[i];
    const minus = op === "fnma";
    if (this.#dies(a) && a !== c && !this.#dies(c)) return this.#overFactor(i, a, b, c, minus);
    if (this.#dies(b) && b !== c && !this.#dies(c)) return this.#overFactor(i, b, a, c, minus);
    const [first, second] = this.#registers[a] === NONE ? [b, a] : [a, b];
    const factor = this.#inRegister(first), other = this.#operand(second);
    const sum = this.#destroyed(i, c);
    this.#vector(minus ? VECTOR.vfnmadd231ps : VECTOR.vfmadd231ps, sum, factor, other);
  }
  /** The result takes the place of a factor. */
  #overFactor(i: number, dying: VectorValue, factor: VectorValue, sum: VectorValue, minus: boolean): void {
    this.#operand(dying); // locks it
    // One of the two others may be in memory.
    if (this.#registers[factor] === NONE && this.#registers[sum] !== NONE) {
      const middle = this.#inRegister(sum), last = this.#operand(factor);
      this.#vector(minus ? VECTOR.vfnmadd132ps : VECTOR.vfmadd132ps, this.#destroyed(i, dying), middle, last);
      return;
    }
    const middle = this.#inRegister(factor), last = this.#operand(sum);
    this.#vector(minus ? VECTOR.vfnmadd213ps : VECTOR.vfmadd213ps, this.#destroyed(i, dying), middle, last);
  }

  #compare(i: number): void {
    const { args: [a, b], imm } = this.steps[i];
    const first = this.#inRegister(a), second = this.#operand(b);
    if (this.printer.isa === "avx2") return this.#vector(VECTOR.vcmpps, this.#result(i), first, second, imm);
    this.#vector(VECTOR.vcmpps, TRUTH, first, second, imm);
    if (this.#selectsNext(i)) {
      this.#used(a);
      if (b !== a) this.#used(b);
      return;
    }
    this.#vector(AVX512.vpmovm2d, this.#result(i), 0, TRUTH);
  }
  /** A comparison that the next step alone uses to select stays in the mask register. */
  #selectsNext(i: number): boolean {
    const uses = this.#uses[i], next = this.steps[i + 1];
    return uses.length === 1 && uses[0] === i + 1 && next.op === "select" && next.args[0] === i &&
      next.args[1] !== i && next.args[2] !== i;
  }
  #select(i: number): void {
    const [truth, a, b] = this.steps[i].args;
    if (this.printer.isa === "avx2") {
      const mask = this.#inRegister(truth), last = this.#inRegister(b), first = this.#operand(a);
      this.#vector(AVX2.vblendvps, this.#result(i), last, first, mask << 4);
      return;
    }
    if (this.steps[truth].op === "compare" && truth === i - 1 && this.#registers[truth] === NONE) {
      const last = this.#inRegister(b), first = this.#operand(a);
      this.printer.asm.vector(AVX512.vblendmps, this.#result(i), last, first, { mask: TRUTH });
      return;
    }
    this.#inRegister(truth);
    const first = this.#inRegister(a), last = this.#operand(b);
    this.#vector(AVX512.vpternlogd, this.#destroyed(i, truth), first, last, BITWISE_SELECT);
  }

  #accumulate(i: number): void {
    const { args: [value], pinned } = this.steps[i];
    const { op, register } = pinned!;
    if (op === "max") {
      // A NaN that the accumulator holds stays.
      this.#vector(VECTOR.vmaxps, register, this.#inRegister(value), register);
    } else this.#vector(PINNED[op], register, register, this.#operand(value));
    this.#used(value);
  }

  /** Arguments and result are the first vector registers; all others are lost. */
  #call(i: number): void {
    const { asm } = this.printer, { args, symbol } = this.steps[i];
    for (const arg of args) this.#inRegister(arg);
    for (let register = 0; register < this.#owners.length; register++) {
      if (this.#owners[register] !== NONE) this.#evict(register);
    }
    const kept = this.#kept ??= this.pinned.map((register) => ({
      register,
      at: this.printer.reserve(asm.vectorBytes),
    }));
    for (const { register, at } of kept) this.#vector(VECTOR.storeUps, register, 0, { base: RSP, disp: at });
    args.forEach((arg, k) => this.#copy(k, this.#homeOf(arg)!));
    asm.call(this.printer.symbol(symbol!));
    const result = this.printer.reserve(asm.vectorBytes);
    this.#vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: result });
    for (const { register, at } of kept) this.#vector(VECTOR.vmovups, register, 0, { base: RSP, disp: at });
    for (const arg of new Set(args)) this.#used(arg);
    this.#free.length = 0;
    for (let register = asm.vectorRegisters - 1; register >= 0; register--) {
      if (!this.pinned.includes(register)) this.#free.push(register);
    }
    this.accesses.afterCall();
    if (this.#uses[i].length > 0) this.#places[i] = result;
  }
}
