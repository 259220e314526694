// Prints a group: loops over its sizes, the last one in vectors. Sums over rows are ready for the stages after theirs;
// sums over columns keep a block of columns in registers while the rows go by.
import type { GroupKernel, Instruction, Reduction, Stage, StridedAccess } from "../kernel.ts";
import { Allocation } from "./allocation.ts";
import { RSP } from "./assembler.ts";
import { type MemoryOperand } from "./encodings.ts";
import { TRUTHS, X86Expressions, type X86Sources } from "./expressions.ts";
import { Pointers } from "./pointers.ts";
import type { Printer } from "./printer.ts";
import { ACCUMULATORS, type Gathering, Reductions } from "./reductions.ts";
import { type VectorStep, VectorSteps, type VectorValue } from "./steps.ts";
import { simplified, stridedAccessesOf } from "../strided_access.ts";

/** Steps of a body up to which it is unrolled so often. */
const UNROLLED = [[8, 4], [20, 2]] as const;
/** `special`: where a slot lies that the table does not have. */
export function printX86Group(
  printer: Printer,
  kernel: GroupKernel,
  special?: (slot: number) => MemoryOperand | null,
): void {
  if (kernel.sizes.includes(0)) throw new Error(`internal: ${kernel.name} loops over nothing.`);
  printer.withFrame(() => new Group(printer, simplified(kernel), special).print());
}

class Group {
  readonly #pointers: Pointers;
  readonly #reductions: Reductions;
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
  readonly #counted = new Map<Stage, readonly VectorStep[]>();
  /** Where instructions lie that are the same for a whole row, as whole vectors. */
  readonly #invariants = new Map<Stage, ReadonlyMap<number, number>>();

  constructor(
    readonly printer: Printer,
    readonly kernel: GroupKernel,
    special?: (slot: number) => MemoryOperand | null,
  ) {
    const { sizes, stages } = kernel;
    this.#outer = sizes.length - 1;
    this.#inner = sizes[this.#outer];
    this.#lanes = printer.asm.lanes;
    this.#vectors = Math.floor(this.#inner / this.#lanes);
    this.#tail = this.#inner % this.#lanes;
    this.#calls = stages.some((stage) => this.#count(stage).some(({ op }) => op === "call"));
    const accesses = stridedAccessesOf(kernel);
    this.#pointers = new Pointers(printer, this.#outer, accesses, this.#tail, this.#calls, special);
    this.#reductions = new Reductions(printer, this.#pointers);
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
  #known(stage: Stage, steps: VectorSteps): X86Sources["known"] {
    const places = this.#invariants.get(stage);
    return (i) => {
      const disp = places?.get(i);
      return disp === undefined ? null : steps.home({ base: RSP, disp });
    };
  }

  /** The steps of one vector, to see how many there are. */
  #count(stage: Stage): readonly VectorStep[] {
    const counted = this.#counted.get(stage);
    if (counted) return counted;
    const steps = new VectorSteps(this.printer);
    new X86Expressions(
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
    for (const [reduction, at] of this.#totals) {
      if (reduction.over === "all") this.#reductions.clearTotal(reduction, at);
    }
    if (has("column") && !has("row")) this.#printColumns(stages);
    else {
      for (const { reductions } of stages) {
        for (const reduction of reductions) if (reduction.over === "column") this.#clearColumns(reduction);
      }
      this.#overRows(() => stages.forEach((stage) => this.#printRow(stage)));
    }
    for (const [reduction, at] of this.#totals) {
      if (reduction.over === "all" && reduction.to) this.#reductions.finish(reduction, at);
    }
  }

  // Loops.

  #overRows(body: () => void): void {
    const { asm } = this.printer;
    const open = (dim: number): void => {
      if (dim === this.#outer) return body();
      const counter: MemoryOperand = { base: RSP, disp: this.printer.reserve(8) };
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
    const gatherings = this.#reductions.make(gathered, copies, this.#totals);
    for (const gathering of gatherings) {
      if (gathering.reduction.over === "row" && gathering.registers.length === 0) {
        this.#reductions.clearTotal(gathering.reduction, gathering.total);
      }
      this.#reductions.clear(gathering);
    }
    this.#beforeRow(stage, gatherings);
    this.#overVectors(copies, (count, tail) => this.#block(stage, count, tail, gatherings));
    for (const gathering of gatherings) {
      if (gathering.reduction.over === "row") this.#reductions.finishRow(gathering);
      else this.#reductions.gather(gathering);
    }
  }

  /** A block of columns at a time, over all rows. */
  #printColumns(stages: readonly Stage[]): void {
    const reductions = stages.flatMap((stage) => stage.reductions);
    const copies = Math.min(...stages.map((stage) => this.#copies(stage, reductions.length)));
    const rows = this.kernel.sizes.slice(0, this.#outer).reduce((product, size) => product * size, 1);
    const counters = this.#reductions.counters(rows);
    const gatherings = this.#reductions.make(reductions, copies, this.#totals).map((one) =>
      this.#reductions.withLevels(one, counters)
    );
    this.#overVectors(copies, (count, tail) => {
      this.#reductions.beginColumns(gatherings, counters);
      // The pointers' state is that of this block in each row.
      const { indexed, from } = this.#pointers;
      this.#overRows(() => {
        for (const stage of stages) {
          this.#beforeRow(stage, gatherings);
          this.#block(stage, count, tail, gatherings);
        }
        this.#reductions.cascade(gatherings, counters);
      });
      Object.assign(this.#pointers, { indexed, from });
      for (const gathering of gatherings) {
        this.#reductions.endColumns(gathering);
        if (gathering.reduction.over === "all") this.#reductions.gather(gathering);
        else this.#reductions.storeColumns(gathering, count, tail);
      }
    });
  }
  /** Where rows are reduced, too, sums of columns gather in memory. */
  #clearColumns(reduction: Reduction): void {
    const { to } = reduction;
    if (!to) return;
    this.#overVectors(1, (_, tail) => {
      this.#reductions.begin(reduction, 0);
      let free = 0;
      this.#pointers.store(this.#pointers.use({ strided: to, copy: 0, tail }), 0, () => ++free);
    });
  }

  // The body.

  /** Computes what is the same for a whole row. */
  #beforeRow(stage: Stage, gatherings: readonly Gathering[]): void {
    const places = this.#invariants.get(stage);
    if (!places || places.size === 0) return;
    const steps = new VectorSteps(this.printer), pointers = this.#pointers;
    const sources: X86Sources = {
      load: (strided) =>
        steps.add({ op: "load", args: [], access: pointers.use({ strided, copy: 0, tail: false }) }),
      reduced: (i) => steps.home({ base: RSP, disp: this.#rows[i] }),
    };
    const expressions = new X86Expressions(steps, sources, this.kernel.exact === true, stage.instructions);
    for (const [i, stack] of places) {
      const access = pointers.use({ strided: NOWHERE, copy: 0, tail: false, stack });
      steps.add({ op: "store", args: [expressions.number(i)], access });
    }
    this.#emit(steps, gatherings);
  }
  #emit(steps: VectorSteps, gatherings: readonly Gathering[]): void {
    const pinned = gatherings.flatMap(({ registers }) => registers);
    new Allocation(this.printer, steps.list, this.#pointers, pinned).emit();
  }

  #block(stage: Stage, copies: number, tail: boolean, gatherings: readonly Gathering[]): void {
    const steps = new VectorSteps(this.printer), pointers = this.#pointers;
    for (let copy = 0; copy < copies; copy++) {
      const partial = tail && copy === copies - 1;
      const access = (strided: StridedAccess) => pointers.use({ strided, copy, tail: partial });
      const loaded = new Map<string, VectorValue>();
      const load = (strided: StridedAccess): VectorValue => {
        const key = `${strided.slot} ${strided.offset} ${strided.kind} ${strided.strides.join()}`;
        let value = loaded.get(key);
        if (value === undefined) {
          loaded.set(key, value = steps.add({ op: "load", args: [], access: access(strided) }));
        }
        return value;
      };
      const reduced = (i: number) => steps.home({ base: RSP, disp: this.#rows[i] });
      const expressions = new X86Expressions(
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
            ? pointers.use({ strided: NOWHERE, copy, tail: false, stack: gathering.total })
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
  #countedLanes(steps: VectorSteps, { op }: Reduction, value: VectorValue): VectorValue {
    const mask = steps.home(this.#pointers.tailMask());
    return op === "sum" ? steps.and(value, mask) : steps.select(mask, value, steps.number(-Infinity));
  }
  #accumulate(steps: VectorSteps, { op }: Reduction, register: number, value: VectorValue): void {
    const into = (how: "add" | "max" | "or", from: VectorValue) =>
      steps.add({ op: "accumulate", args: [from], pinned: { op: how, register } });
    if (op === "sum") return void into("add", value);
    const nan = steps.compare("unordered", value, value);
    into("max", value);
    into("or", nan);
  }
}

const NOWHERE: StridedAccess = { slot: 0, offset: 0, strides: [], kind: "f32" };

// Finds what is the same for a whole row: it is computed once for it, before the loop over its vectors.

/** Instructions that take longer than reading a number does. */
const SLOW: ReadonlySet<string> = new Set([
  ...["div", "sqrt", "rsqrt", "reciprocal", "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "pow"],
]);

/** The last instructions of chains that are the same for a whole row and that something slow is part of. */
export function rowInvariants({ instructions, stores, reductions }: Stage): number[] {
  const same: boolean[] = [], slow: boolean[] = [];
  instructions.forEach((one, i) => {
    const args = argsOf(one);
    same[i] = "from" in one ? one.from.strides.at(-1) === 0 : args.every((arg) => same[arg]);
    slow[i] = args.length > 0 && (SLOW.has(one.op) || args.some((arg) => same[arg] && slow[arg]));
  });
  const wanted = new Set([...stores, ...reductions].map(({ value }) => value));
  instructions.forEach((one, i) => {
    if (!same[i]) { for (const arg of argsOf(one)) wanted.add(arg); }
  });
  // A truth value is not a number that memory holds.
  const isNumber = ({ op }: Instruction) => !TRUTHS.has(op) && op !== "where";
  return [...wanted].filter((i) => same[i] && slow[i] && isNumber(instructions[i]));
}

const argsOf = (one: Instruction): readonly number[] => "args" in one ? one.args : [];
