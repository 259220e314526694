// Samples go into shards from any source by the loader, or as image files.
import { messageOf, UserError } from "../../base/errors.ts";
import { headerOf } from "../images/header.ts";
import { imagePath, IMAGES_READER, labelOf, type Listing } from "../images/listing.ts";
import type { ImagesSpec } from "../images/reader.ts";
import { BadSample } from "../arrays/rows.ts";
import { type Batch, type Part, plainPart, type Source } from "../source/source.ts";
import { type PackedSchema, rowLayoutOf, type StoredField } from "./schema.ts";
import type { Encoded, Make } from "./write.ts";
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { borrowBytes, constant, readBytes, tensor } from "../../../ffi/make.ts";
import { contiguous, div, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { type BatchRows, batchRows, openLoader } from "../loader/loader.ts";

interface EncodedPacking {
  readonly schema: PackedSchema;
  readonly samples: number;
  readonly val: number;
  readonly sampleBytes: number;
  make(sample: number): Encoded;
}

/** The lengths of so many files are read, to plan the shards. */
const LOOKED_AT = 256;

export function encodedImages(train: Source, val: Source | null): EncodedPacking {
  const sets = [train, ...(val ? [val] : [])].map(filesOf);
  const samples = train.length + (val?.length ?? 0);
  const at = (sample: number): File =>
    sample < train.length ? sets[0](sample) : sets[1](sample - train.length);
  const count = Math.min(samples, LOOKED_AT);
  const sizes = Array.from(
    { length: count },
    (_, i) => Deno.statSync(at(Math.floor(i * samples / count)).path).size,
  );
  const { width, height } = headerOf(read(at(0))), pixels = train.threaded!.input.dtype;
  const { task, outputs } = train.facts;
  return {
    schema: {
      encoding: "encoded",
      input: {
        ...{ name: train.input.name, shape: [3, height, width], dtype: pixels, seen: "f32" },
        ...(pixels === "u8" && { divisor: 255 }),
      },
      target: { name: train.target.name, shape: [], dtype: "i64", seen: "i64" },
      task,
      outputs,
      names: train.names,
    },
    samples,
    val: val?.length ?? 0,
    sampleBytes: Math.ceil(sizes.reduce((sum, size) => sum + size, 0) / count),
    make(sample) {
      const file = at(sample);
      const input = read(file);
      return { input, target: new Uint8Array(BigInt64Array.of(BigInt(file.label)).buffer) };
    },
  };
}

interface File {
  readonly path: string;
  readonly label: number;
}

function filesOf(source: Source): (sample: number) => File {
  const threaded = source.threaded;
  if (threaded?.reader.module !== IMAGES_READER) {
    throw new UserError(
      "usage",
      `--keep-encoded is for images in class folders (JPEG, PNG, WebP), and ${source.name} holds no such: leave it out.`,
    );
  }
  const listing: Listing = (threaded.reader as ImagesSpec).listing;
  return (sample) => {
    const index = threaded.indices?.[sample] ?? sample;
    return { path: imagePath(listing, index), label: labelOf(listing, index) };
  };
}

/** The header is checked, so that packing finds a file that is no image. */
function read({ path }: File): Uint8Array {
  try {
    const bytes = Deno.readFileSync(path);
    headerOf(bytes);
    return bytes;
  } catch (error) {
    const reason = error instanceof BadSample ? error.reason : `can't be read: ${messageOf(error)}`;
    throw new UserError("data", `${path} ${reason}. Repair it, or take it out of the folder.`, {
      cause: error,
    });
  }
}

/** A field is stored from the raw or the finished batch. */
interface Way {
  readonly field: StoredField;
  readonly from: "raw" | "finished";
}

export interface Packing {
  readonly schema: PackedSchema;
  readonly samples: number;
  readonly val: number;
  readonly make: Make;
  passedOver(): number;
  close(): void;
}

/** Training samples come first, validation samples after them, each in the source's order. */
export function packingOf(train: Source, val: Source | null, threads: number): Packing {
  const ways = waysOf(train);
  const { task, outputs } = train.facts;
  const schema: PackedSchema = {
    encoding: "rows",
    input: ways.input.field,
    target: ways.target.field,
    task,
    outputs,
    ...(train.names ? { names: train.names } : {}),
    ...(train.missing?.input || train.missing?.target ? { missing: train.missing } : {}),
    ...(train.leads && train.leads > 1 ? { leads: train.leads } : {}),
  };
  const supply = openSupply([train, ...(val ? [val] : [])], threads);
  return {
    schema,
    samples: train.length + (val?.length ?? 0),
    val: val?.length ?? 0,
    make(first, count, rows) {
      const ofVal = val !== null && first >= train.length;
      const [source, from] = ofVal ? [val, first - train.length] : [train, first];
      supply.batches(ofVal ? 1 : 0, from, count, (batch, part, at) => {
        const finished = [ways.input, ways.target].some((way) => way.from === "finished")
          ? source.finish(batch, part)
          : batch;
        const of = (way: Way) => way.from === "raw" ? batch : finished;
        placeRow(rows, rowLayoutOf(schema), at, of(ways.input).input, of(ways.target).target);
      });
    },
    passedOver: supply.passedOver,
    close: supply.close,
  };
}

function placeRow(
  rows: Uint8Array,
  { rowBytes, inputBytes, targetAt, targetBytes }: ReturnType<typeof rowLayoutOf>,
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
 * Raw rows are stored where they are smaller and finish() only changes the type or divides by 255. A probe
 * with telling numbers decides, whatever the samples are.
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

const PART = 16;

function openSupply(sources: readonly Source[], threads: number) {
  const threaded = sources.filter((source) => source.threaded);
  const loader = threads > 0 && threaded.length > 0
    ? openLoader(threaded.map((source) => ({ source, rows: PART, held: 1 })), threads, PREFETCH_BYTES, false)
    : null;
  const rows: BatchRows[] = sources.map((source) =>
    loader && source.threaded ? loader.lanes[threaded.indexOf(source)] : batchRows(source)
  );
  return {
    /** `use` gets the batch and the number of samples before it. */
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
