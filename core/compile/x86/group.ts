// Prints a group: loops over its sizes, the last one in vectors. Sums over rows are ready for the stages after theirs;
// sums over columns keep a block of columns in registers while the rows go by.
import type { GroupKernel, Reduction, Stage, Walk } from "../kernel.ts";
import { Allocation, TRUTH } from "./allocation.ts";
import { AVX2, AVX512, type Memory, RSP, VECTOR } from "./assembler.ts";
import { Expressions, type Sources } from "./expressions.ts";
import { rowInvariants } from "./invariants.ts";
import { Pointers } from "./pointers.ts";
import { bitsOf, type Printer } from "./printer.ts";
import { COMPARE, type Step, Steps, type Value } from "./steps.ts";
import { simplified, walksOf } from "../walks.ts";

/** Registers that accumulators may take, and steps of a body up to which it is unrolled so often. */
const ACCUMULATORS = { avx512: 16, avx2: 6 } as const;
const UNROLLED = [[8, 4], [20, 2]] as const;
/** So many rows are summed up before their sum joins the next level, as libtorch does: errors grow slowly, and alike. */
const CASCADE = 16;
const LEVELS = 3;

/** Where a reduction gathers: in a register for each copy of the loop's body, or on the stack. */
interface Gathering {
  readonly reduction: Reduction;
  readonly registers: readonly number[];
  /** The sum until now, over the rows that are done. */
  readonly total: number;
  /** Sums over columns: for each level of the cascade, where the copies' sums lie. */
  readonly levels: readonly (readonly number[])[];
}

/** `special`: where a slot lies that the table does not have. */
export function printGroup(
  printer: Printer,
  kernel: GroupKernel,
  special?: (slot: number) => Memory | null,
): void {
  if (kernel.sizes.includes(0)) throw new Error(`internal: ${kernel.name} loops over nothing.`);
  printer.withFrame(() => new Group(printer, simplified(kernel), special).print());
}

class Group {
  readonly #pointers: Pointers;
  readonly #outer: number;
  readonly #inner: number;
  readonly #lanes: number;
  /** Whole vectors of a row, and lanes of its last one. */
  readonly #vectors: number;
  readonly #tail: number;
  /** Where each row reduction's result lies, as a whole vector. */
  readonly #rows: number[] = [];
  readonly #totals = new Map<Reduction, number>();
  readonly #calls: boolean;
  readonly #counted = new Map<Stage, readonly Step[]>();
  /** Where instructions lie that are the same for a whole row, as whole vectors. */
  readonly #invariants = new Map<Stage, ReadonlyMap<number, number>>();

  constructor(
    readonly printer: Printer,
    readonly kernel: GroupKernel,
    special?: (slot: number) => Memory | null,
  ) {
    const { sizes, stages } = kernel;
    this.#outer = sizes.length - 1;
    this.#inner = sizes[this.#outer];
    this.#lanes = printer.asm.lanes;
    this.#vectors = Math.floor(this.#inner / this.#lanes);
    this.#tail = this.#inner % this.#lanes;
    this.#calls = stages.some((stage) => this.#count(stage).some(({ op }) => op === "call"));
    const walks = walksOf(kernel);
    this.#pointers = new Pointers(printer, this.#outer, walks, this.#tail, this.#calls, special);
    for (const { reductions } of stages) {
      for (const reduction of reductions) {
        const at = printer.reserve(printer.asm.vectorBytes);
        this.#totals.set(reduction, at);
        if (reduction.over === "row") this.#rows.push(at);
      }
    }
    if (!this.#calls && this.#inner > this.#lanes) stages.forEach((stage) => this.#placeInvariants(stage));
  }
  #placeInvariants(stage: Stage): void {
    const places = rowInvariants(stage).map((i) => [i, this.printer.reserve(this.printer.asm.vectorBytes)]);
    this.#invariants.set(stage, new Map(places as [number, number][]));
    this.#counted.delete(stage);
  }
  #known(stage: Stage, steps: Steps): Sources["known"] {
    const places = this.#invariants.get(stage);
    return (i) => {
      const disp = places?.get(i);
      return disp === undefined ? null : steps.home({ base: RSP, disp });
    };
  }

  /** The steps of one vector, to see how many there are. */
  #count(stage: Stage): readonly Step[] {
    const counted = this.#counted.get(stage);
    if (counted) return counted;
    const steps = new Steps(this.printer);
    new Expressions(
      steps,
      {
        load: () => steps.add({ op: "load", args: [], access: 0 }),
        reduced: () => steps.number(0),
        known: this.#known(stage, steps),
      },
      this.kernel.exact === true,
      stage.instructions,
    );
    this.#counted.set(stage, steps.list);
    return steps.list;
  }

  print(): void {
    const { stages } = this.kernel;
    const has = (over: Reduction["over"]) => stages.some((s) => s.reductions.some((r) => r.over === over));
    this.#pointers.begin();
    for (const [reduction, at] of this.#totals) if (reduction.over === "all") this.#clearTotal(reduction, at);
    if (has("column") && !has("row")) this.#printColumns(stages);
    else {
      for (const { reductions } of stages) {
        for (const reduction of reductions) if (reduction.over === "column") this.#clearColumns(reduction);
      }
      this.#overRows(() => stages.forEach((stage) => this.#printRow(stage)));
    }
    for (const [reduction, at] of this.#totals) {
      if (reduction.over === "all" && reduction.to) this.#finish(reduction, at);
    }
  }

  // Loops.

  #overRows(body: () => void): void {
    const { asm } = this.printer;
    const open = (dim: number): void => {
      if (dim === this.#outer) return body();
      const counter: Memory = { base: RSP, disp: this.printer.reserve(8) };
      const size = this.kernel.sizes[dim], again = asm.label();
      asm.storeNumber(counter, size);
      asm.bind(again);
      open(dim + 1);
      this.#pointers.advance(dim, 1);
      asm.subtract(counter, 1);
      asm.jump("notZero", again);
      this.#pointers.advance(dim, -size);
    };
    open(0);
  }

  /** Calls `block` for so many vectors side by side, until the row is over; the last one may have fewer lanes. */
  #overVectors(copies: number, block: (copies: number, tail: boolean) => void): void {
    const { asm } = this.printer, pointers = this.#pointers;
    const times = Math.floor(this.#vectors / copies), rest = this.#vectors % copies;
    pointers.indexed = times > 1;
    pointers.from = 0;
    if (times === 1) block(copies, false);
    else if (times > 1) {
      const again = asm.label(), step = copies * this.#lanes;
      asm.moveNumber(pointers.index, 0);
      asm.bind(again);
      block(copies, false);
      asm.add(pointers.index, step);
      asm.compare(pointers.index, times * step);
      asm.jump("less", again);
    }
    pointers.indexed = false;
    pointers.from = times * copies * this.#lanes;
    const last = rest + (this.#tail > 0 ? 1 : 0);
    if (last > 0) block(last, this.#tail > 0);
  }

  #copies(stage: Stage, reductions: number): number {
    if (this.#calls) return 1;
    const count = this.#count(stage).filter(({ op }) => op !== "home").length;
    const wanted = UNROLLED.find(([steps]) => count <= steps)?.[1] ?? 1;
    const room = reductions === 0 ? wanted : Math.floor(ACCUMULATORS[this.printer.isa] / reductions);
    return Math.max(1, Math.min(wanted, room, this.#vectors));
  }

  #printRow(stage: Stage): void {
    const gathered = stage.reductions.filter(({ over }) => over !== "column");
    const copies = this.#copies(stage, gathered.length);
    const gatherings = this.#gatherings(gathered, copies);
    for (const gathering of gatherings) {
      if (gathering.reduction.over === "row") this.#clearTotal(gathering.reduction, gathering.total);
      this.#clear(gathering);
    }
    this.#beforeRow(stage, gatherings);
    this.#overVectors(copies, (count, tail) => this.#block(stage, count, tail, gatherings));
    for (const gathering of gatherings) {
      this.#gather(gathering);
      const { reduction, total } = gathering;
      if (reduction.over !== "row") continue;
      this.#finish(reduction, total);
    }
  }

  /** A block of columns at a time, over all rows. */
  #printColumns(stages: readonly Stage[]): void {
    const { asm } = this.printer;
    const reductions = stages.flatMap((stage) => stage.reductions);
    const copies = Math.min(...stages.map((stage) => this.#copies(stage, reductions.length)));
    const rows = this.kernel.sizes.slice(0, this.#outer).reduce((product, size) => product * size, 1);
    const depth = Math.min(LEVELS, Math.ceil(Math.log2(rows) / Math.log2(CASCADE)) - 1);
    const counters = Array.from({ length: Math.max(0, depth) }, () => this.printer.reserve(8));
    const gatherings = this.#gatherings(reductions, copies).map((gathering) => ({
      ...gathering,
      levels: gathering.reduction.op === "sum" && gathering.registers.length > 0
        ? counters.map(() => gathering.registers.map(() => this.printer.reserve(asm.vectorBytes)))
        : [],
    }));
    this.#overVectors(copies, (count, tail) => {
      for (const gathering of gatherings) {
        if (gathering.reduction.over === "column") this.#clearTotal(gathering.reduction, gathering.total);
        this.#clear(gathering);
        for (const place of gathering.levels.flat()) this.#storeZero(place);
      }
      for (const counter of counters) asm.storeNumber({ base: RSP, disp: counter }, CASCADE);
      // The pointers' state is that of this block in each row.
      const { indexed, from } = this.#pointers;
      this.#overRows(() => {
        for (const stage of stages) {
          this.#beforeRow(stage, gatherings);
          this.#block(stage, count, tail, gatherings);
        }
        this.#cascade(gatherings, counters);
      });
      Object.assign(this.#pointers, { indexed, from });
      for (const gathering of gatherings) {
        for (const level of gathering.levels) {
          gathering.registers.forEach((register, copy) =>
            asm.vector(VECTOR.vaddps, register, register, { base: RSP, disp: level[copy] })
          );
        }
        if (gathering.reduction.over === "all") this.#gather(gathering);
        else this.#storeColumns(gathering, count, tail);
      }
    });
  }
  /** After a row: where a level is full, its sum joins the next one. */
  #cascade(gatherings: readonly Gathering[], counters: readonly number[]): void {
    const { asm } = this.printer, summed = gatherings.filter(({ levels }) => levels.length > 0);
    const done = asm.label();
    counters.forEach((counter, level) => {
      asm.subtract({ base: RSP, disp: counter }, 1);
      asm.jump("notZero", done);
      asm.storeNumber({ base: RSP, disp: counter }, CASCADE);
      for (const { registers, levels } of summed) {
        registers.forEach((register, copy) => {
          const into: Memory = { base: RSP, disp: levels[level][copy] };
          if (level === 0) {
            asm.vector(VECTOR.vaddps, register, register, into);
            asm.vector(VECTOR.storeUps, register, 0, into);
            asm.vector(VECTOR.vpxor, register, register, register);
          } else {
            const full = levels[level - 1][copy];
            asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: full });
            asm.vector(VECTOR.vaddps, 0, 0, into);
            asm.vector(VECTOR.storeUps, 0, 0, into);
            this.#storeZero(full);
          }
        });
      }
    });
    asm.bind(done);
  }
  #storeZero(place: number): void {
    const { asm } = this.printer;
    asm.vector(VECTOR.vpxor, 0, 0, 0);
    asm.vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: place });
  }

  // Reductions.

  /** Registers for as many as there is room for; the others gather on the stack. */
  #gatherings(reductions: readonly Reduction[], copies: number): Gathering[] {
    const { asm } = this.printer;
    let next = asm.vectorRegisters;
    const room = ACCUMULATORS[asm.isa];
    return reductions.map((reduction, i) => ({
      reduction,
      registers: (i + 1) * copies <= room ? Array.from({ length: copies }, () => --next) : [],
      total: this.#totals.get(reduction)!,
      levels: [],
    }));
  }
  #first({ op }: Reduction): number {
    return op === "sum" ? 0 : bitsOf(-Infinity);
  }
  #clearTotal(reduction: Reduction, at: number): void {
    const { printer } = this;
    this.#fill(0, this.#first(reduction));
    printer.asm.vector(VECTOR.storeUps, 0, 0, { base: RSP, disp: at });
  }
  #clear({ reduction, registers }: Gathering): void {
    for (const register of registers) this.#fill(register, this.#first(reduction));
  }
  #fill(register: number, bits: number): void {
    const { asm } = this.printer;
    if (bits === 0) return asm.vector(VECTOR.vpxor, register, register, register);
    asm.vector(VECTOR.vbroadcastss, register, 0, this.printer.words([bits]));
  }
  /** All copies' registers into the total. */
  #gather({ reduction, registers, total }: Gathering): void {
    const { asm } = this.printer;
    if (registers.length === 0) return;
    const [first, ...others] = registers;
    for (const other of others) this.#combine(reduction, first, other);
    asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: total });
    this.#combine(reduction, first, 0);
    asm.vector(VECTOR.storeUps, first, 0, { base: RSP, disp: total });
  }
  /** `into` with `other`, which may be lost; registers 1 and 2 are free. A NaN of either stays. */
  #combine({ op }: Reduction, into: number, other: number, bits?: 128 | 256): void {
    const { asm } = this.printer;
    const extra = bits ? { bits } : {};
    if (op === "sum") return asm.vector(VECTOR.vaddps, into, into, other, extra);
    asm.vector(VECTOR.vmaxps, into, other, into, extra);
    if (asm.isa === "avx512") {
      asm.vector(VECTOR.vcmpps, TRUTH, other, other, { ...extra, imm: COMPARE.unordered });
      asm.vector(VECTOR.vmovups, into, 0, other, { ...extra, mask: TRUTH });
    } else {
      asm.vector(VECTOR.vcmpps, 2, other, other, { ...extra, imm: COMPARE.unordered });
      asm.vector(VECTOR.vpor, into, into, 2, extra);
    }
  }
  /** One number of the lanes of a total: in all lanes again, and where it is wanted in memory. */
  #finish(reduction: Reduction, total: number): void {
    const { asm } = this.printer;
    const place: Memory = { base: RSP, disp: total };
    asm.vector(VECTOR.vmovups, 0, 0, place);
    if (asm.isa === "avx512") {
      asm.vector(AVX512.vextractf64x4, 0, 0, 1, { imm: 1 });
      this.#combine(reduction, 0, 1, 256);
      asm.vector(AVX512.vextractf32x4, 0, 0, 1, { imm: 1, bits: 256 });
    } else asm.vector(AVX2.vextractf128, 0, 0, 1, { imm: 1 });
    this.#combine(reduction, 0, 1, 128);
    for (const imm of [0x4e, 0xb1]) {
      asm.vector(VECTOR.vpermilps, 1, 0, 0, { imm, bits: 128 });
      this.#combine(reduction, 0, 1, 128);
    }
    if (reduction.to) {
      asm.vector(VECTOR.storeSs, 0, 0, this.#pointers.single(reduction.to), { bits: 128 });
    }
    asm.vector(VECTOR.vbroadcastss, 0, 0, 0);
    asm.vector(VECTOR.storeUps, 0, 0, place);
  }

  #storeColumns({ reduction, registers, total }: Gathering, count: number, tail: boolean): void {
    const { to } = reduction;
    if (!to) return;
    const { asm } = this.printer;
    for (let copy = 0; copy < count; copy++) {
      const from = registers[copy] ?? 0;
      if (registers.length === 0) asm.vector(VECTOR.vmovups, 0, 0, { base: RSP, disp: total });
      const use = this.#pointers.use({ walk: to, copy, tail: tail && copy === count - 1 });
      let free = 0;
      this.#pointers.store(use, from, () => ++free);
    }
  }
  /** Where rows are reduced, too, sums of columns gather in memory. */
  #clearColumns(reduction: Reduction): void {
    const { to } = reduction;
    if (!to) return;
    this.#overVectors(1, (_, tail) => {
      this.#fill(0, this.#first(reduction));
      let free = 0;
      this.#pointers.store(this.#pointers.use({ walk: to, copy: 0, tail }), 0, () => ++free);
    });
  }

  // The body.

  /** Computes what is the same for a whole row. */
  #beforeRow(stage: Stage, gatherings: readonly Gathering[]): void {
    const places = this.#invariants.get(stage);
    if (!places || places.size === 0) return;
    const steps = new Steps(this.printer), pointers = this.#pointers;
    const sources: Sources = {
      load: (walk) =>
        steps.add({ op: "load", args: [], access: pointers.use({ walk, copy: 0, tail: false }) }),
      reduced: (i) => steps.home({ base: RSP, disp: this.#rows[i] }),
    };
    const expressions = new Expressions(steps, sources, this.kernel.exact === true, stage.instructions);
    for (const [i, stack] of places) {
      const access = pointers.use({ walk: NOWHERE, copy: 0, tail: false, stack });
      steps.add({ op: "store", args: [expressions.number(i)], access });
    }
    this.#emit(steps, gatherings);
  }
  #emit(steps: Steps, gatherings: readonly Gathering[]): void {
    const pinned = gatherings.flatMap(({ registers }) => registers);
    new Allocation(this.printer, steps.list, this.#pointers, pinned).emit();
  }

  #block(stage: Stage, copies: number, tail: boolean, gatherings: readonly Gathering[]): void {
    const steps = new Steps(this.printer), pointers = this.#pointers;
    for (let copy = 0; copy < copies; copy++) {
      const partial = tail && copy === copies - 1;
      const access = (walk: Walk) => pointers.use({ walk, copy, tail: partial });
      const loaded = new Map<string, Value>();
      const load = (walk: Walk): Value => {
        const key = `${walk.slot} ${walk.offset} ${walk.kind} ${walk.strides.join()}`;
        let value = loaded.get(key);
        if (value === undefined) {
          loaded.set(key, value = steps.add({ op: "load", args: [], access: access(walk) }));
        }
        return value;
      };
      const reduced = (i: number) => steps.home({ base: RSP, disp: this.#rows[i] });
      const expressions = new Expressions(
        steps,
        { load, reduced, known: this.#known(stage, steps) },
        this.kernel.exact === true,
        stage.instructions,
      );
      for (const reduction of stage.reductions) {
        const value = expressions.number(reduction.value);
        const counted = partial ? this.#countedLanes(steps, reduction, value) : value;
        const gathering = gatherings.find((one) => one.reduction === reduction);
        if (gathering && gathering.registers.length > 0) {
          this.#accumulate(steps, reduction, gathering.registers[copy], counted);
        } else {
          const at = gathering
            ? pointers.use({ walk: NOWHERE, copy, tail: false, stack: gathering.total })
            : access(reduction.to!);
          const before = steps.add({ op: "load", args: [], access: at });
          const sum = reduction.op === "sum"
            ? steps.plus(before, counted)
            : steps.or(steps.greater(before, counted), steps.compare("unordered", before, before));
          steps.add({ op: "store", args: [sum], access: at });
        }
      }
      for (const { value, to } of stage.stores) {
        steps.add({ op: "store", args: [expressions.number(value)], access: access(to) });
      }
    }
    this.#emit(steps, gatherings);
  }

  /** Lanes behind the row's end count nothing. */
  #countedLanes(steps: Steps, { op }: Reduction, value: Value): Value {
    const mask = steps.home(this.#pointers.tailMask());
    return op === "sum" ? steps.and(value, mask) : steps.select(mask, value, steps.number(-Infinity));
  }
  #accumulate(steps: Steps, { op }: Reduction, register: number, value: Value): void {
    const into = (how: "add" | "max" | "or", from: Value) =>
      steps.add({ op: "accumulate", args: [from], pinned: { op: how, register } });
    if (op === "sum") return void into("add", value);
    const nan = steps.compare("unordered", value, value);
    into("max", value);
    into("or", nan);
  }
}

const NOWHERE: Walk = { slot: 0, offset: 0, strides: [], kind: "f32" };
