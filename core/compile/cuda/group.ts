// One group as a function of CUDA C. Sums over rows are ready for the stages after theirs; sums over columns and over
// everything are left in parts where several blocks make them, which code.ts sums up.
import { isHalf } from "../graph.ts";
import type { GroupKernel, Reduction, Stage, StridedAccess } from "../kernel.ts";
import { simplified, stridedAccessesOf } from "../strided_access.ts";
import { CudaExpressions, type CudaSources, type Lanes } from "./expressions.ts";
import { opName } from "./prelude.ts";
import { beginOwn, endOfColumns, endOfOwn, type OwnSum } from "./own_columns.ts";
import { asFloat, packsOf } from "./packs.ts";
import { type KernelArgument, Parameters } from "./parameters.ts";
import { type KernelSchedule, kernelSchedule } from "./schedule.ts";

/** So many steps over a row are written out, so that what they load is on its way at once. */
const FEW_STEPS = 8;

/** Elements of a tensor to which indices of 32 bits reach, with room for a step of all threads. */
const MOST_INDEX = 2 ** 30;

/** A reduction leaves `parts` rows of so many columns in scratch memory. */
export interface PartialRows {
  readonly reduction: Reduction;
  readonly begin: number;
  readonly parts: number;
  readonly columns: number;
}

interface PrintedGroup {
  /** The function's parameters in order; scratch memory comes behind them if it has `scratch`. */
  readonly arguments: readonly KernelArgument[];
  /** Without its name: equal groups have equal text. */
  readonly parameters: string;
  readonly body: string;
  readonly schedule: KernelSchedule;
  readonly parts: readonly PartialRows[];
  /** f32 elements of scratch memory. */
  readonly scratch: number;
}

/** `aligned` says whether a slot's memory begins at a multiple of 16 bytes. */
export const printCudaGroup = (kernel: GroupKernel, aligned: (slot: number) => boolean): PrintedGroup =>
  new Group(simplified(kernel), aligned).print();

/** The lines of a loop's body, and those that may stand before the loop. */
interface Body {
  readonly fixed: readonly string[];
  readonly lines: readonly string[];
}

/** The column of one of the elements that a step takes at once. */
const columnOf = (lane: number): string => lane > 0 ? `(c + ${lane})` : "c";

const inLoop = ({ fixed, lines }: Body): string[] => [...fixed, ...lines];

class Group {
  readonly #schedule: KernelSchedule;
  readonly #parameters: Parameters;
  readonly #parts = new Map<Reduction, PartialRows>();
  readonly #index: "int" | "long long";
  readonly #inner: number;
  readonly #rows: number;
  readonly #rowResults = new Map<Reduction, string>();
  readonly #writtenSlots: ReadonlySet<number>;
  #scratch = 0;
  /** f32 numbers that a block has in common. */
  #shared = 0;

  constructor(readonly kernel: GroupKernel, readonly aligned: (slot: number) => boolean) {
    const { sizes, stages } = kernel;
    if (sizes.includes(0)) throw new Error(`internal: ${kernel.name} loops over nothing.`);
    this.#parameters = new Parameters(sizes);
    this.#schedule = kernelSchedule(kernel);
    this.#writtenSlots = new Set(stages.flatMap(({ stores, reductions }) => [
      ...stores.map(({ to }) => to.slot),
      ...reductions.flatMap(({ to }) => to?.slot ?? []),
    ]));
    this.#inner = sizes.at(-1)!;
    this.#rows = sizes.slice(0, -1).reduce((product, size) => product * size, 1);
    const farthest = Math.max(
      this.#rows * this.#inner,
      ...stridedAccessesOf(kernel).map(({ strides }) =>
        strides.reduce((sum, step, dim) => sum + step * (sizes[dim] - 1), 0)
      ),
    );
    this.#index = farthest < MOST_INDEX ? "int" : "long long";
    for (const { reductions } of stages) {
      for (const reduction of reductions) {
        if (reduction.over === "row") this.#rowResults.set(reduction, `r${this.#rowResults.size}`);
        else if (reduction.to !== null) this.#plan(reduction);
      }
    }
  }

  /** Where one block or worker makes the whole of it, it goes to its place at once. */
  #plan(reduction: Reduction): void {
    const { way, blocks, workers, keeps } = this.#schedule;
    const parts = reduction.over === "all" || keeps ? blocks : way === "flat" ? 1 : workers;
    if (parts === 1) return;
    const columns = reduction.over === "all" ? 1 : this.#inner;
    this.#parts.set(reduction, { reduction, begin: this.#scratch, parts, columns });
    this.#scratch += parts * columns;
  }

  print(): PrintedGroup {
    const { way } = this.#schedule;
    const lines = way === "flat" ? this.#flat() : way === "rows" ? this.#byRows() : this.#byColumns();
    const head = this.#shared > 0 ? [`__shared__ float shared[${this.#shared}];`] : [];
    const parameters = this.#parameters.declared();
    if (this.#scratch > 0) parameters.push("float *scratch");
    return {
      arguments: this.#parameters.list,
      parameters: parameters.join(", "),
      body: [...head, ...lines].map((line) => `  ${line}\n`).join(""),
      schedule: this.#schedule,
      parts: [...this.#parts.values()],
      scratch: this.#scratch,
    };
  }

  // Memory.

  /** The index of a strided access: i0, i1, ... and c count the loops. */
  #at(access: StridedAccess, column: string): string {
    const last = access.strides.length - 1;
    const terms = access.strides.flatMap((stride, dim) => {
      const index = dim === last ? column : `i${dim}`;
      return stride === 0 || index === "0" ? [] : [stride === 1 ? index : `${index} * ${stride}`];
    });
    return terms.length === 0 ? "0" : terms.join(" + ");
  }
  /** So many numbers side by side, at a multiple of their bytes. */
  #together({ slot, offset, strides, kind }: StridedAccess, lanes: Lanes): boolean {
    return lanes > 1 && (kind === "f32" || isHalf(kind)) && strides.at(-1) === 1 && this.aligned(slot) &&
      [offset, ...strides.slice(0, -1)].every((one) => one % lanes === 0);
  }

  #sources(lanes: Lanes, prefix: string): CudaSources {
    let fours = 0;
    return {
      load: (from) => {
        if (from.kind === "place") return this.#place(from, `${prefix}f${fours++}`);
        if (from.kind === "philox") return this.#drawn(from, lanes, `${prefix}f${fours++}`);
        const pointer = this.#parameters.of(from);
        if (this.#together(from, lanes)) {
          const packs = packsOf(from.kind, lanes), first = fours;
          fours += packs.count;
          const name = (pack: number) => `${prefix}f${first + pack}`;
          return {
            lines: Array.from({ length: packs.count }, (_, pack) => {
              const at = `${pointer} + ${this.#at(from, columnOf(pack * packs.lanes))}`;
              return `const ${packs.type} ${name(pack)} = *(const ${packs.type} *)(${at});`;
            }),
            value: (lane) =>
              asFloat(from.kind, packs.read(name(Math.floor(lane / packs.lanes)), lane % packs.lanes)),
          };
        }
        const value = (lane: number) => {
          const read = `${pointer}[${this.#at(from, columnOf(lane))}]`;
          return asFloat(from.kind, read);
        };
        return { lines: [], value };
      },
      reduced: (reduction) => `r${reduction}`,
      written: (slot) => this.#writtenSlots.has(slot),
    };
  }

  /** The first lane's place becomes a float; the others are so much farther. */
  #place(from: StridedAccess, name: string): ReturnType<CudaSources["load"]> {
    const line = `const float ${name} = (float)(${from.offset} + ${this.#at(from, "c")});`;
    const step = from.strides.at(-1)!;
    return { lines: [line], value: (lane) => lane === 0 ? name : `${name} + ${lane * step}.0f` };
  }

  /** Four numbers side by side are drawn together. */
  #drawn(from: StridedAccess, lanes: Lanes, name: string): ReturnType<CudaSources["load"]> {
    const pointer = this.#parameters.of({ ...from, offset: 0 }),
      { offset, strides } = from,
      stride = strides.at(-1)!;
    const place = (column: string) => `${offset} + ${this.#at(from, column)}`;
    const together = lanes > 1 && stride === 1 &&
      [offset, ...strides.slice(0, -1)].every((one) => one % 4 === 0);
    if (!together) {
      return { lines: [], value: (lane) => `drawn(${pointer}, ${place(columnOf(lane))})` };
    }
    return {
      lines: Array.from(
        { length: lanes / 4 },
        (_, four) => `const Four ${name}_${four} = philox(${pointer}, (${place(columnOf(4 * four))}) / 4);`,
      ),
      value: (lane) => `evenly(${name}_${lane >> 2}.${"xyzw"[lane & 3]})`,
    };
  }

  #stores(stage: Stage, values: CudaExpressions, lanes: Lanes): string[] {
    return stage.stores.flatMap(({ value, to }) => {
      const { kind } = to;
      if (kind !== "f32" && !isHalf(kind)) throw new Error(`internal: a kernel stores ${kind}.`);
      const pointer = this.#parameters.of(to, true);
      const of = (lane: number) => {
        const number = values.number(value, lane);
        return kind === "f32" ? number : `as_${kind}(${number})`;
      };
      if (this.#together(to, lanes)) {
        const packs = packsOf(kind, lanes);
        return Array.from({ length: packs.count }, (_, pack) => {
          const begin = pack * packs.lanes, at = `${pointer} + ${this.#at(to, columnOf(begin))}`;
          const numbers = Array.from({ length: packs.lanes }, (_, lane) => of(begin + lane));
          return `*(${packs.type} *)(${at}) = make_${packs.type}(${packs.made(numbers).join(", ")});`;
        });
      }
      return Array.from({ length: lanes }, (_, lane) => {
        const column = columnOf(lane);
        return `${pointer}[${this.#at(to, column)}] = ${of(lane)};`;
      });
    });
  }

  #shares(numbers: number): void {
    this.#shared = Math.max(this.#shared, numbers);
  }

  // Sums of a thread.

  #name = (reduction: Reduction): string => `sum${this.#all().indexOf(reduction)}`;
  #all(): Reduction[] {
    return this.kernel.stages.flatMap(({ reductions }) => reductions);
  }
  #first = ({ op }: Reduction): string => `${opName(op)}::first()`;
  #joined = ({ op }: Reduction, a: string, b: string): string => `${opName(op)}::join(${a}, ${b})`;

  /** Each lane adds its number to the thread's own sum. */
  #gather(reduction: Reduction, values: CudaExpressions, lanes: Lanes): string[] {
    const name = this.#name(reduction);
    return Array.from(
      { length: lanes },
      (_, lane) => `${name} = ${this.#joined(reduction, name, values.number(reduction.value, lane))};`,
    );
  }
  #begin = (reductions: readonly Reduction[]): string[] =>
    reductions.map((one) => `float ${this.#name(one)} = ${this.#first(one)};`);

  /** Sums over everything, at the end of a block. */
  #endOfBlock(): string[] {
    return this.#all().filter(({ over, to }) => over === "all" && to !== null).flatMap((reduction) => {
      this.#shares(32);
      const name = this.#name(reduction), parts = this.#parts.get(reduction);
      const place = parts
        ? `scratch[${parts.begin} + blockIdx.x]`
        : `${this.#parameters.of(reduction.to!, true)}[0]`;
      return [
        `${name} = of_block<${opName(reduction.op)}>(${name}, shared);`,
        `if (threadIdx.x == 0) ${place} = ${name};`,
      ];
    });
  }

  // Loops.

  #loop = (head: string, body: readonly string[]): string[] => [
    `for (${head}) {`,
    ...body.map((line) => `  ${line}`),
    "}",
  ];
  /** The counters of the outer loops. */
  #counters(from: string): string[] {
    const outer = this.kernel.sizes.slice(0, -1);
    let step = 1;
    return outer.map((size, dim) => ({ size, dim })).reverse().map(({ size, dim }) => {
      const divided = step > 1 ? `${from} / ${step}` : from;
      step *= size;
      return `const ${this.#index} i${dim} = ${
        dim > 0 ? `${step > size ? `(${divided})` : divided} % ${size}` : divided
      };`;
    });
  }

  /** Stages without a sum between them are one after the other for each element. */
  #flat(): string[] {
    return [
      ...this.#begin(this.#all().filter(({ to }) => to !== null)),
      ...this.kernel.stages.flatMap((stage, s) => this.#flatLoops(stage, s)),
      ...this.#endOfBlock(),
    ];
  }
  #flatLoops(stage: Stage, s: number): string[] {
    const { lanes } = this.#schedule, elements = this.#rows * this.#inner;
    const whole = Math.floor(elements / lanes);
    const loops = this.#flatLoop(this.#body(stage, lanes, `v${s}_`), lanes, 0, whole);
    if (whole * lanes === elements) return loops;
    const rest = this.#flatLoop(this.#body(stage, 1, `t${s}_`), 1, whole * lanes, elements);
    return [...loops, ...rest];
  }
  #flatLoop({ fixed, lines }: Body, lanes: Lanes, from: number, to: number): string[] {
    const index = this.#index, steps = this.#inner / lanes, times = lanes > 1 ? ` * ${lanes}` : "";
    const place = this.kernel.sizes.length === 1
      ? [`const ${index} c = e${times};`]
      : [`const ${index} row = e / ${steps}, c = e % ${steps}${times};`, ...this.#counters("row")];
    const thread = `(${index})blockIdx.x * blockDim.x + threadIdx.x`;
    const head = `${index} e = ${
      from > 0 ? `${from} + ` : ""
    }${thread}; e < ${to}; e += gridDim.x * blockDim.x`;
    return [...fixed, ...this.#loop(head, [...place, ...lines])];
  }
  /** All of a stage, at i0, i1, ... and c. */
  #body(stage: Stage, lanes: Lanes, prefix: string): Body {
    const values = new CudaExpressions(stage.instructions, this.#sources(lanes, prefix), lanes, prefix);
    const lines = [
      ...values.lines,
      ...stage.reductions.filter(({ over, to }) => over === "row" || to !== null)
        .flatMap((one) => this.#gatherIn(one, values, lanes)),
      ...this.#stores(stage, values, lanes),
    ];
    return { fixed: values.fixed, lines };
  }
  #gatherIn(reduction: Reduction, values: CudaExpressions, lanes: Lanes): string[] {
    if (reduction.over !== "column") return this.#gather(reduction, values, lanes);
    // Each row's turn adds to what its thread, or else its worker, has of these columns.
    if (reduction.to === null) return [];
    const { way, keeps } = this.#schedule;
    return Array.from({ length: lanes }, (_, lane) => {
      if (keeps || way === "columns") {
        const at = way === "columns" ? lane : lanes > 1 ? `u * ${lanes} + ${lane}` : "u";
        const own = `${this.#own(reduction)}[${at}]`;
        return `${own} = ${this.#joined(reduction, own, values.number(reduction.value, lane))};`;
      }
      const place = this.#columnPlace(reduction, columnOf(lane), "worker");
      const value = values.number(reduction.value, lane);
      return `${place} = row == worker ? ${value} : ${this.#joined(reduction, place, value)};`;
    });
  }
  #columnPlace(reduction: Reduction, column: string, worker: string): string {
    const parts = this.#parts.get(reduction);
    if (parts) return `scratch[${parts.begin} + ${worker} * ${parts.columns} + ${column}]`;
    return `${this.#parameters.of(reduction.to!, true)}[${
      this.#at({ ...reduction.to!, strides: this.#onlyLast(reduction) }, column)
    }]`;
  }
  #onlyLast = ({ to }: Reduction): number[] =>
    to!.strides.map((stride, dim) => dim < to!.strides.length - 1 ? 0 : stride);

  #byRows(): string[] {
    const { width, workers, threads } = this.#schedule, index = this.#index;
    const each = threads / width;
    const worker = each === 1
      ? ["const int worker = blockIdx.x, t = threadIdx.x;"]
      : width === 1
      ? [`const int worker = blockIdx.x * ${each} + threadIdx.x;`]
      : [`const int worker = blockIdx.x * ${each} + threadIdx.x / ${width}, t = threadIdx.x % ${width};`];
    const everything = this.#all().filter(({ over, to }) => over === "all" && to !== null);
    const ofRow = (stage: Stage) => stage.reductions.filter(({ over }) => over === "row");
    const row = this.kernel.stages.flatMap((stage, s) => [
      ...this.#begin(ofRow(stage)),
      ...this.#overColumns(inLoop(this.#body(stage, this.#schedule.lanes, `v${s}_`))),
      ...ofRow(stage).flatMap((one) => this.#endOfRow(one)),
    ]);
    const most = Math.min(workers, this.#rows);
    const loop = this.#loop(`${index} row = worker; row < ${this.#rows}; row += ${most}`, [
      ...this.#counters("row"),
      ...row,
    ]);
    // Threads beyond the last worker have no row, but meet the others at the end.
    const guarded = most < this.#schedule.blocks * each ? [`if (worker < ${most})`, ...loop] : loop;
    return [
      ...worker,
      ...this.#begin(everything),
      ...this.#keptSums().flatMap((sum) => beginOwn(sum, this.#inner, this.#schedule)),
      ...guarded,
      ...this.#endOfColumns(),
      ...this.#endOfBlock(),
    ];
  }
  /** A stage's loop over the columns of a row. */
  #overColumns(body: readonly string[]): string[] {
    const { width, lanes, keeps } = this.#schedule, index = this.#index, step = width * lanes;
    const begin = width === 1 ? "0" : lanes > 1 ? `t * ${lanes}` : "t", steps = Math.ceil(this.#inner / step);
    if (!keeps && steps > FEW_STEPS) {
      return this.#loop(`${index} c = ${begin}; c < ${this.#inner}; c += ${step}`, body);
    }
    const whole = Math.floor(this.#inner / step), column = `const ${index} c = ${begin} + u * ${step};`;
    const indented = body.map((line) => `  ${line}`);
    return [
      ...(whole > 0
        ? ["#pragma unroll", ...this.#loop(`int u = 0; u < ${whole}; u++`, [column, ...body])]
        : []),
      // Only the last step has to ask: what the others have read is still known to the next stage.
      ...(whole < steps
        ? [
          "{",
          `  const int u = ${whole};`,
          `  ${column}`,
          `  if (c < ${this.#inner}) {`,
          ...indented,
          "  }",
          "}",
        ]
        : []),
    ];
  }

  // Sums over columns beside those over rows, where each thread keeps those of its own columns.

  #own = (reduction: Reduction): string => `own${this.#all().indexOf(reduction)}`;
  #keptSums = (): OwnSum[] => this.#schedule.keeps ? this.#columnSums("blockIdx.x") : [];
  #columnSums(worker: string): OwnSum[] {
    return this.#all().filter(({ over, to }) => over === "column" && to !== null).map((reduction) => ({
      name: this.#own(reduction),
      op: opName(reduction.op),
      place: (column) => this.#columnPlace(reduction, column, worker),
    }));
  }
  #endOfColumns(): string[] {
    const loop = (body: readonly string[]) => this.#overColumns(body);
    return this.#keptSums().flatMap((sum) => {
      const { lines, shared } = endOfOwn(sum, this.#inner, this.#schedule, loop);
      this.#shares(shared);
      return lines;
    });
  }
  #endOfRow(reduction: Reduction): string[] {
    const { width, threads } = this.#schedule;
    const sum = this.#name(reduction), name = this.#rowResults.get(reduction)!, op = opName(reduction.op);
    if (width === threads) this.#shares(32);
    const whole = width === 1
      ? sum
      : width === threads
      ? `of_block<${op}>(${sum}, shared)`
      : `of_warp<${op}>(${sum})`;
    const { to } = reduction;
    const place = to &&
      `${this.#parameters.of(to, true)}[${this.#at({ ...to, strides: to.strides.with(-1, 0) }, "0")}]`;
    return [
      `const float ${name} = ${whole};`,
      ...(place ? [`${width === 1 ? "" : "if (t == 0) "}${place} = ${name};`] : []),
    ];
  }

  #byColumns(): string[] {
    const { width, threads, workers, lanes } = this.#schedule, index = this.#index;
    const across = Math.ceil(this.#inner / (width * lanes)), high = threads / width;
    const stages = this.kernel.stages.flatMap((stage, s) => inLoop(this.#body(stage, lanes, `v${s}_`)));
    const loop = this.#loop(
      `${index} row = worker * ${high} + threadIdx.x / ${width}; row < ${this.#rows}; row += ${
        high * workers
      }`,
      [...this.#counters("row"), ...stages],
    );
    const first = `(blockIdx.x % ${across}) * ${width} + threadIdx.x % ${width}`;
    this.#shares(threads * lanes);
    return [
      `const int worker = blockIdx.x / ${across};`,
      `const ${index} c = ${lanes > 1 ? `(${first}) * ${lanes}` : first};`,
      ...this.#begin(this.#all().filter(({ over, to }) => over === "all" && to !== null)),
      ...this.#columnSums("worker").flatMap((sum) => beginOwn(sum, this.#inner, this.#schedule)),
      ...(across * width * lanes > this.#inner ? [`if (c < ${this.#inner})`] : []),
      ...loop,
      ...this.#columnSums("worker").flatMap((sum) => endOfColumns(sum, this.#inner, this.#schedule)),
      ...this.#endOfBlock(),
    ];
  }
}
