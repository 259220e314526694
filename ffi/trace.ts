// Records the ops of a step: which op, of what values, made what. A value is what a tensor holds until an op writes to
// it; tensors that no recorded op made come from outside. A write to such a tensor is never left out because nobody reads it:
// it is a result of the step. What the next step might do otherwise, such as a number that the program reads, ends the recording.
import type { DType } from "./dtype.ts";
import { native } from "./abi.ts";
import { alias, clone, emptyLike } from "./ops.ts";
import { noGrad, requiresGradient, withGrad } from "./autograd.ts";
import { Num } from "./scalar.ts";
import { movedBy, parseSchema, type Schema } from "./schema.ts";
import { type Listener, type Reason, type Refusal, tape, unrecorded } from "./tape.ts";
import { keep, Tensor } from "./tensor.ts";

/** Stands for a tensor among the arguments of a recorded op. */
export class Seen {
  constructor(readonly value: number) {}
}

export interface RecordedValue {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** Its numbers lie one behind the other, row by row: some of libtorch's ops go another way where they don't. */
  readonly dense: boolean;
  /** Elements from one number to the next, in each dimension: libtorch's products depend on them, too. */
  readonly strides: readonly number[];
  /** `op`: an op's result. `number`: a 0-dim constant. `outside`: the same tensor in every step, or the batch's. */
  readonly from: "op" | "number" | "outside";
  readonly number: number;
  /** The tensor itself, of what comes from outside; and an op's result where it is the same in every step. */
  readonly tensor: Tensor | null;
}

/** Random numbers that are drawn in every step. */
export interface Drops {
  /** The generator was seeded for this block. */
  readonly block: number;
  /** Counts how often it was seeded in this step. */
  readonly seeding: number;
  /** As libtorch lays them out: the order of its numbers is that of memory. Null where that is row by row. */
  readonly like: Tensor | null;
  /** The op's own arguments, where its numbers are other ones than zeros and ones: tensors that lie as those it was given. */
  readonly given?: readonly unknown[];
}

export interface RecordedOp {
  readonly schema: Schema;
  /** In the schema's order: Seen for tensors, also in lists; Num for the numbers of a Scalar. */
  readonly args: readonly unknown[];
  readonly results: readonly number[];
  /** Autograd has to stop here: libtorch does not remember how these results were made. */
  readonly stopped: boolean;
  /** Set where it drops numbers. */
  readonly drops: Drops | null;
  /** The model's block that it is a part of; the loss belongs to the last one. */
  readonly part: number;
  /** It writes to this value, which comes from outside: a count, a buffer. */
  readonly writes: number | null;
  /** It moves these values, as batch norm its running statistics: its last results are what becomes of them. */
  readonly moves: readonly number[];
  /** Its result, where the size of that depends on numbers. */
  readonly found: Tensor | null;
}

export interface Recording {
  readonly values: readonly RecordedValue[];
  readonly ops: readonly RecordedOp[];
  /** The first thing that it could not follow. */
  readonly refusal: Refusal | null;
  /** The generator was seeded last so; null where it was not. */
  readonly seeded: Pick<Drops, "block" | "seeding"> | null;
  /** The value that a tensor holds at the end; null for one that it has not met. */
  valueOf(t: Tensor): number | null;
  /** Gives back what it holds. */
  free(): void;
}

/** Ops that draw random numbers. */
export const RANDOM = new RegExp(
  "^(rand|randn|randint|randperm|normal|uniform|bernoulli|multinomial|(native_|feature_|alpha_|feature_alpha_)?dropout|" +
    "rrelu|poisson|exponential|cauchy|log_normal|geometric|random)(_with_noise)?(_like)?_?$",
);

/** They take no more than the shape of their tensors. */
const DRAWS =
  /^((rand|randn|randint|randperm)(_like)?|(normal|uniform|exponential|cauchy|log_normal|geometric|random)_)$/;

/** Ops without a tensor among their arguments, and with the same result each time. */
const FACTORIES = new Set([
  ...["zeros", "ones", "full", "arange", "eye", "linspace", "logspace", "scalar_tensor", "tril_indices"],
  ...["triu_indices", "hann_window", "hamming_window", "fft_fftfreq", "fft_rfftfreq"],
]);

/** They take a tensor's shape alone. */
const SHAPED = new Set(["zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"]);

/** How a tensor lies in its memory. */
interface Lies {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
  readonly dtype: DType;
}

/** Tensors of one piece of memory. */
interface Memory {
  readonly members: Tensor[];
  /** The first of them, where it has all of the memory, row by row: what is written through another one is written to it. */
  whole?: Lies & { readonly known: Known };
  outside: boolean;
  /** Nothing but constants was ever written to it. */
  constant: boolean;
}

interface Known {
  value: number;
  memory: Memory;
  /** The op that wrote to its memory: through another tensor, or to be seen in the next step. */
  stale: string | null;
}

/** As they tell of themselves: a part of a value is written, and a part is seen once something was written. */
const WRITTEN = parseSchema(
  "written_through(Tensor whole, Tensor part, SymInt[] size, SymInt[] stride, SymInt offset) -> Tensor",
);
const SEEN_AGAIN = parseSchema(
  "seen_through(Tensor whole, SymInt[] size, SymInt[] stride, SymInt offset) -> Tensor",
);

const liesOf = ({ shape, strides, offset, dtype }: Tensor): Lies => ({ shape, strides, offset, dtype });

/** Records the ops of `body`, up to its backward. */
export function record<R>(body: () => R): { result: R; recording: Recording } {
  if (tape.recorder !== null) throw new Error("internal: a step is being recorded already.");
  const recorder = new Recorder();
  tape.recorder = recorder;
  try {
    const result = body();
    return { result, recording: recorder };
  } finally {
    tape.recorder = null;
  }
}

/** All that it gives is what it has written to. */
const writesAlone = ({ args, returns }: Schema, written: number): boolean =>
  args.findLastIndex(({ memory }) => memory === "written") === written &&
  returns.every(({ argument }) => argument === written);

/** The size of its result depends on numbers: places where something is true. */
const findsPlaces = ({ name }: Schema, args: readonly unknown[]): boolean =>
  name === "nonzero" ||
  name === "index" && (args[1] as unknown[]).some((t) => t instanceof Tensor && t.dtype === "bool");

const rowByRow = (t: Tensor): Tensor => clone(t, "contiguous");

class Recorder implements Listener, Recording {
  readonly values: RecordedValue[] = [];
  readonly ops: RecordedOp[] = [];
  refusal: Refusal | null = null;
  seeded: Recording["seeded"] = null;
  readonly #known = new Map<Tensor, Known>();
  /** Made since the recording began; what no op told of has numbers from elsewhere. */
  readonly #born = new Set<Tensor>();
  readonly #held: Tensor[] = [];
  /** These values are the same in every step. */
  readonly #constants = new Set<number>();
  #over = false;
  #part = 0;

  born(t: Tensor): void {
    if (!this.#over) this.#born.add(t);
  }

  number(t: Tensor, value: number): void {
    if (this.#over || this.#known.has(t)) return;
    this.#constants.add(
      this.#learn(t, { from: "number", number: value, tensor: t }, {
        members: [],
        outside: true,
        constant: false,
      }),
    );
  }

  constant(t: Tensor): void {
    if (this.#over) return;
    const constant = { from: "outside", number: 0, tensor: this.#hold(t, rowByRow) } as const;
    this.#constants.add(this.#learn(t, constant, { members: [], outside: false, constant: true }));
  }

  refuse(op: string, reason: Reason): void {
    if (!this.#over) this.refusal ??= { op, reason };
  }

  seeds(block: number): void {
    this.seeded = { block, seeding: (this.seeded?.seeding ?? 0) + 1 };
  }

  entered(block: number): void {
    this.#part = block;
  }

  /** Also when backward has begun: what it hands back is known by it. */
  same(of: Tensor, made: Tensor): void {
    let known = this.#known.get(of);
    if (!known && this.#over) return;
    if (!known) {
      if (this.#born.has(of)) this.refuse("detach", "outside");
      this.#learn(of, { from: "outside", number: 0, tensor: of }, {
        members: [],
        outside: true,
        constant: false,
      });
      known = this.#known.get(of)!;
    }
    known.memory.members.push(made);
    this.#known.set(made, { ...known });
  }

  op(schema: Schema, args: readonly unknown[], result: unknown): void {
    if (this.#over) return;
    if (schema.name === "_backward") return this.#end(schema, args);
    const written = schema.args.findIndex(({ memory }) => memory === "written");
    if (written >= 0 && !(args[written] instanceof Tensor && writesAlone(schema, written))) {
      return this.refuse(schema.name, "writes");
    }
    const target = written >= 0 ? args[written] as Tensor : null;
    const encoded = args.map((value) => this.#encode(schema, value));
    const constant = this.#isConstant(schema, args);
    const writes = target && this.#writes(schema.name, target, constant);
    const made = result === undefined ? [] : Array.isArray(result) ? result : [result];
    const results = made.flatMap((t, i) => {
      if (!(t instanceof Tensor)) return [];
      if (t === target) return this.#rewrite(t);
      const sharing = schema.returns[Math.min(i, schema.returns.length - 1)];
      const tensor = constant && target === null ? this.#hold(t, rowByRow) : null;
      const memory = this.#memoryOf(schema, args, sharing) ?? { members: [], outside: false, constant };
      return this.#learn(t, { from: "op", number: 0, tensor }, memory);
    });
    const moving = movedBy(schema, args).map((i) => args[i] as Tensor);
    const moves = moving.map((t) => this.#known.get(t)!.value);
    for (const t of moving) results.push(this.#move(schema.name, t));
    const stopped = unrecorded(() => !native.gradMode());
    if (target && stopped && writes === null && this.#learns(target)) this.refuse(schema.name, "writes");
    const drops = this.#drops(schema, args);
    const found = findsPlaces(schema, args) ? this.#hold(result as Tensor, rowByRow) : null;
    this.ops.push({ schema, args: encoded, results, stopped, drops, writes, moves, found, part: this.#part });
    if (target && writes === null) this.#writeThrough(target);
  }

  valueOf(t: Tensor): number | null {
    const known = this.#known.get(t);
    return known === undefined || known.stale !== null ? null : known.value;
  }

  free(): void {
    for (const t of this.#held.splice(0)) t.free();
  }

  /** A gradient inside of the model would come before its loss's own. */
  #end(schema: Schema, args: readonly unknown[]): void {
    if (args[4] === true || (args[1] as unknown[]).length > 0) return this.refuse(schema.name, "mode");
    this.#over = true;
  }

  #drops({ name }: Schema, args: readonly unknown[]): Drops | null {
    const attention = name === "scaled_dot_product_attention";
    const share = attention
      ? args[4]
      : name === "bernoulli_"
      ? args[1]
      : /^(feature_)?dropout_?$/.test(name) && args[2] === true
      ? args[1]
      : 0;
    if (DRAWS.test(name) && this.seeded !== null) {
      const given = args.map((value) => value instanceof Tensor ? this.#hold(value, emptyLike) : value);
      return { ...this.seeded, like: null, given };
    }
    if (typeof share !== "number" || share === 0 || this.seeded === null) return null;
    const like = attention || name.startsWith("feature") ? null : this.#hold(args[0] as Tensor, emptyLike);
    return { ...this.seeded, like };
  }

  /** Other tensors of this memory hold values that nobody knows. */
  #overwrite(op: string, target: Tensor, constant: boolean): Known {
    const known = this.#known.get(target)!;
    known.memory.constant &&= constant;
    for (const member of known.memory.members) {
      if (member !== target) this.#known.get(member)!.stale = op;
    }
    return known;
  }

  /** The value that the tensor holds from now on, which other ops may read. */
  #move(op: string, t: Tensor): number {
    return this.#overwrite(op, t, false).value = this.#value(t, { from: "op", number: 0, tensor: null });
  }

  /** Null where a tensor that was made in this step is written to. */
  #writes(op: string, target: Tensor, constant: boolean): number | null {
    const known = this.#overwrite(op, target, constant);
    if (!known.memory.outside) return null;
    known.stale = op; // what it holds is written at the step's end
    return this.#heldFor(target, known);
  }

  /** Autograd remembers how something in the tensor's memory was made, and would not hear of a write to it. */
  #learns(target: Tensor): boolean {
    const { members } = this.#known.get(target)!.memory;
    return unrecorded(() => withGrad(() => members.some((t) => t.h !== 0n && requiresGradient(t))));
  }

  /** A view of outside memory is kept for the write. */
  #heldFor(target: Tensor, known: Known): number {
    if (this.values[known.value].from === "outside") return known.value;
    return this.#value(target, { from: "outside", number: 0, tensor: this.#hold(target, alias) });
  }

  /** A copy stays what it is when the step writes to the tensor itself. */
  #hold(t: Tensor, as: (t: Tensor) => Tensor): Tensor {
    const held = unrecorded(() => noGrad(() => keep(as(t))));
    this.#held.push(held);
    return held;
  }

  /** Made of nothing but constants. */
  #isConstant({ name }: Schema, args: readonly unknown[]): boolean {
    if (SHAPED.has(name)) return true;
    const given = args.flatMap((value) => Array.isArray(value) ? value : [value])
      .filter((value) => value instanceof Tensor);
    const all = given.every((t) => this.#constants.has(this.#known.get(t)!.value));
    if (given.length === 0) return FACTORIES.has(name);
    return all && !RANDOM.test(name) && !/^(new_)?empty/.test(name);
  }

  /** A write to a part is one to the whole, too. */
  #writeThrough(target: Tensor): void {
    const { memory, value } = this.#known.get(target)!, { whole } = memory;
    const lies = unrecorded(() => liesOf(target));
    if (whole === undefined || whole.known === this.#known.get(target) || lies.dtype !== whole.dtype) return;
    const args = [
      new Seen(whole.known.value),
      new Seen(value),
      lies.shape,
      lies.strides,
      lies.offset - whole.offset,
    ];
    whole.known.value = this.#made(WRITTEN, args, whole);
    if (!memory.constant) whole.known.stale = null;
  }

  /** False where it is not known how the tensor lies in what was written. */
  #seeThrough(t: Tensor, known: Known): boolean {
    const { whole, outside } = known.memory, lies = unrecorded(() => liesOf(t));
    if (outside || whole === undefined || whole.known.stale !== null || lies.dtype !== whole.dtype) {
      return false;
    }
    const args = [new Seen(whole.known.value), lies.shape, lies.strides, lies.offset - whole.offset];
    known.value = this.#made(SEEN_AGAIN, args, lies);
    known.stale = null;
    return true;
  }

  /** An op of the recording's own, and its result. */
  #made(schema: Schema, args: readonly unknown[], { shape, dtype, strides }: Lies): number {
    this.values.push({ shape, dtype, strides, dense: true, from: "op", number: 0, tensor: null });
    const results = [this.values.length - 1];
    const none = { stopped: false, drops: null, writes: null, moves: [], found: null };
    this.ops.push({ schema, args, results, ...none, part: this.#part });
    return results[0];
  }

  #rewrite(t: Tensor): number {
    const known = this.#known.get(t)!;
    if (known.memory.constant) this.#seeAgain(t, known);
    else if (!known.memory.outside) known.value = this.#value(t, { from: "op", number: 0, tensor: null });
    return known.value;
  }

  /** A mask that is filled piece by piece with constants is a constant. */
  #seeAgain(t: Tensor, known: Known): void {
    known.value = this.#value(t, { from: "outside", number: 0, tensor: this.#hold(t, rowByRow) });
    known.stale = null;
    this.#constants.add(known.value);
  }

  #encode(schema: Schema, value: unknown): unknown {
    if (value instanceof Tensor) {
      const known = this.#know(schema, value);
      if (known.stale !== null && known.memory.constant) this.#seeAgain(value, known);
      else if (known.stale !== null && !this.#seeThrough(value, known)) this.refuse(known.stale, "writes");
      return new Seen(known.value);
    }
    if (Array.isArray(value)) return value.map((each) => this.#encode(schema, each));
    if (value instanceof Num) {
      if (value.imaginary !== undefined) this.refuse(schema.name, "type");
      return value;
    }
    return value;
  }

  #know(schema: Schema, t: Tensor): Known {
    const known = this.#known.get(t);
    if (known) return known;
    if (this.#born.has(t)) this.refuse(schema.name, "outside");
    this.#learn(t, { from: "outside", number: 0, tensor: t }, {
      members: [],
      outside: true,
      constant: false,
    });
    return this.#known.get(t)!;
  }

  #learn(t: Tensor, from: Pick<RecordedValue, "from" | "number" | "tensor">, memory: Memory): number {
    memory.members.push(t);
    const value = this.#value(t, from);
    if (from.from === "op" && from.tensor !== null) this.#constants.add(value);
    const known = { value, memory, stale: null };
    this.#known.set(t, known);
    if (memory.members.length === 1 && !memory.outside) {
      unrecorded(() => t.contiguous && (memory.whole = { ...liesOf(t), known }));
    }
    return value;
  }

  #value(t: Tensor, from: Pick<RecordedValue, "from" | "number" | "tensor">): number {
    const seen = unrecorded(() => ({
      shape: t.shape,
      dtype: t.dtype,
      dense: t.contiguous,
      strides: t.strides,
    }));
    this.values.push({ ...seen, ...from });
    return this.values.length - 1;
  }

  /** Null where an op's result has memory of its own. */
  #memoryOf(schema: Schema, args: readonly unknown[], sharing: { alias: string }): Memory | null {
    const at = sharing.alias === ""
      ? -1
      : schema.args.findIndex(({ alias, memory }) => memory === "shared" && alias === sharing.alias);
    const from = args[at];
    return from instanceof Tensor ? this.#know(schema, from).memory : null;
  }
}
