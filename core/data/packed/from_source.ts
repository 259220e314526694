// A source of any kind -> what packing needs: the fields as they are best stored, and the rows. May import ffi, source,
// the loader, its siblings.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { borrowBytes, constant, readBytes, tensor } from "../../../ffi/make.ts";
import { contiguous, div, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { openLoader } from "../loader/loader.ts";
import { type Rows, rowsOf } from "../loader/rows.ts";
import { type Batch, type Part, plainPart, type Source } from "../source.ts";
import { layoutOf, type Schema, type StoredField } from "./format.ts";
import type { Make } from "./write.ts";

/** How a field is stored, and which of a batch's two faces has it like that. */
interface Way {
  readonly field: StoredField;
  readonly from: "raw" | "finished";
}

export interface Packing {
  readonly schema: Schema;
  readonly samples: number;
  readonly val: number;
  readonly make: Make;
  /** Bad samples that others stood in for. */
  passedOver(): number;
  close(): void;
}

/** Samples to train with first, those to validate with behind them, each in the source's order. */
export function packingOf(train: Source, val: Source | null, threads: number): Packing {
  const ways = waysOf(train);
  const { task, outputs } = train.facts;
  const schema: Schema = {
    encoding: "rows",
    input: ways.input.field,
    target: ways.target.field,
    task,
    outputs,
    ...(train.names ? { names: train.names } : {}),
  };
  const supply = openSupply([train, ...(val ? [val] : [])], threads);
  return {
    schema,
    samples: train.length + (val?.length ?? 0),
    val: val?.length ?? 0,
    make(first, count, rows) {
      const ofVal = first >= train.length;
      const [source, from] = ofVal ? [val!, first - train.length] : [train, first];
      supply.batches(ofVal ? 1 : 0, from, count, (batch, part, at) => {
        const finished = [ways.input, ways.target].some((way) => way.from === "finished")
          ? source.finish(batch, part)
          : batch;
        const of = (way: Way) => way.from === "raw" ? batch : finished;
        place(rows, layoutOf(schema), at, of(ways.input).input, of(ways.target).target);
      });
    },
    passedOver: supply.passedOver,
    close: supply.close,
  };
}

/** Puts a batch's rows to their places, from row `at` on. */
function place(
  rows: Uint8Array,
  { rowBytes, inputBytes, targetAt, targetBytes }: ReturnType<typeof layoutOf>,
  at: number,
  input: Tensor,
  target: Tensor,
): void {
  const inputs = borrowBytes(contiguous(input)), targets = borrowBytes(contiguous(target));
  const count = input.shape[0];
  for (let i = 0; i < count; i++) {
    const row = (at + i) * rowBytes;
    rows.set(inputs.subarray(i * inputBytes, (i + 1) * inputBytes), row);
    rows.set(targets.subarray(i * targetBytes, (i + 1) * targetBytes), row + targetAt);
  }
}

/**
 * Rows are stored as the source holds them where that is smaller, and what finish() makes of them can be told in a
 * word: another type, a division by 255. Found out with numbers that show the difference, whatever the samples are.
 */
function waysOf(source: Source): { input: Way; target: Way } {
  return scope(() => {
    const part = plainPart([0]);
    const real = source.raw(part);
    const raw = { input: ramp(real.input), target: ramp(real.target) };
    const seen = source.finish(raw, part);
    return {
      input: wayOf(source.input.name, raw.input, seen.input),
      target: wayOf(source.target.name, raw.target, seen.target),
    };
  });
}

const ramp = ({ shape, dtype, numel }: Tensor): Tensor =>
  toDtype(tensor(Float32Array.from({ length: numel }, (_, i) => (i + 3) % 100), shape), dtype);

function wayOf(name: string, raw: Tensor, seen: Tensor): Way {
  const field = (dtype: DType, { shape }: Tensor, divisor: number): StoredField => ({
    name,
    shape: shape.slice(1),
    dtype,
    seen: seen.dtype,
    ...(divisor === 1 ? {} : { divisor }),
  });
  const numbers = toDtype(raw, seen.dtype);
  const divisor = [1, 255].find((by) =>
    equal(by === 1 ? numbers : div(numbers, constant(by, seen.dtype)), seen)
  );
  return divisor !== undefined && dtypeBytes(raw.dtype) <= dtypeBytes(seen.dtype)
    ? { field: field(raw.dtype, raw, divisor), from: "raw" }
    : { field: field(seen.dtype, seen, 1), from: "finished" };
}

const equal = (a: Tensor, b: Tensor): boolean =>
  a.shape.join() === b.shape.join() && a.dtype === b.dtype && readBytes(a).toHex() === readBytes(b).toHex();

/** Samples that threads read as one piece. */
const PART = 16;

/** Batches of the sources' raw rows, read by threads where that is possible. */
function openSupply(sources: readonly Source[], threads: number) {
  const threaded = sources.filter((source) => source.threaded);
  const loader = threads > 0 && threaded.length > 0
    ? openLoader(threaded.map((source) => ({ source, rows: PART, held: 1 })), threads, PREFETCH_BYTES, false)
    : null;
  const rows: Rows[] = sources.map((source) =>
    loader && source.threaded ? loader.lanes[threaded.indexOf(source)] : rowsOf(source)
  );
  return {
    /** `use` is given the batch, and how many of the samples came before it. */
    batches(
      source: number,
      first: number,
      count: number,
      use: (batch: Batch, part: Part, at: number) => void,
    ): void {
      const parts: Part[] = [];
      for (let at = 0; at < count; at += PART) {
        const size = Math.min(PART, count - at);
        parts.push(plainPart(Int32Array.from({ length: size }, (_, i) => first + at + i)));
      }
      const queue = parts.values();
      rows[source].begin(() => queue.next().value ?? null);
      parts.forEach((part, i) => {
        scope(() => void use(rows[source].take(part), part, i * PART));
        rows[source].release(1);
      });
    },
    passedOver: () =>
      sources.reduce((sum, { passedOver }) => sum + (passedOver?.() ?? 0), loader?.skipped() ?? 0),
    close: () => loader?.close(),
  };
}

const PREFETCH_BYTES = 128 << 20;
