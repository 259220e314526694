// A source of texts in which tokens are hidden (masked_language). Rows are read as they are stored and become 32-bit numbers;
// what is hidden is a function of (seed, epoch, sample, place), and of (seed, sample, place) where a model is judged.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { borrowBytes, uninitialised } from "../../../ffi/make.ts";
import { toDtype } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { key, uniform } from "../../base/random.ts";
import { numbersOf } from "../arrays/numbers.ts";
import { CHOICES, hideTokens, type Masks, type TokenDraw } from "../augment/masked_language.ts";
import { loadReader, noteReader, openReader, openWholeReader, type Reader } from "./reader.ts";
import type { Field, ReaderModule, ReaderSpec, WholeReader } from "./reader.ts";
import { type Batch, batchOf, finishThen, type Part, plainPart, readRows, type Source } from "./source.ts";

interface Hiding {
  readonly masks: Masks;
  readonly seed: number;
  /** Each epoch hides other tokens. */
  readonly training: boolean;
}

/** Another one reads the windows. */
interface MaskedSpec extends ReaderSpec {
  readonly inner: ReaderSpec;
  readonly hiding: Hiding;
  readonly stored: { readonly input: DType; readonly target: number };
  readonly length: number;
}

/** Fills a row of hidden tokens, and its targets, from a row as it is stored. */
type Hide = (stored: Uint8Array, input: Int32Array, target: Int32Array, index: number, epoch: number) => void;

function openHiding({ masks, seed, training }: Hiding, dtype: DType, length: number): Hide {
  let of = -1, at = uniform(key(seed, "masked_language", "judged")), first = 0;
  const draw: TokenDraw = (place, choice) => at(first + place * CHOICES + choice);
  return (stored, input, target, index, epoch) => {
    if (training && epoch !== of) at = uniform(key(seed, "masked_language", of = epoch));
    const tokens = numbersOf(dtype, stored) as ArrayLike<number | bigint>;
    for (let i = 0; i < length; i++) input[i] = Number(tokens[i]);
    first = index * length * CHOICES;
    hideTokens(masks, input, target, draw);
  };
}

const words = (bytes: Uint8Array): Int32Array =>
  new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

function open({ inner, hiding, stored, length }: MaskedSpec): Reader {
  const reader = openReader(inner), hide = openHiding(hiding, stored.input, length);
  const row = new Uint8Array(length * dtypeBytes(stored.input)), next = new Uint8Array(stored.target);
  const readInto = (index: number, input: Uint8Array, target: Uint8Array, epoch: number) => {
    if (reader.readInto) reader.readInto(index, row, next, epoch);
    else {
      const { data } = reader.read(index, next, epoch);
      row.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    }
    hide(row, words(input), words(target), index, epoch);
  };
  const scratch = new Uint8Array(4 * length);
  return {
    readInto,
    read(index, target, epoch) {
      readInto(index, scratch, target, epoch);
      return { data: words(scratch), shape: [length] };
    },
    groupOf: reader.groupOf?.bind(reader),
    path: reader.path,
    close: () => reader.close(),
  };
}

function openWhole({ inner, hiding, stored, length }: MaskedSpec): WholeReader {
  const reader = openWholeReader(inner), hide = openHiding(hiding, stored.input, length);
  return {
    ...{ stored: reader.stored, path: reader.path },
    readPart(indices, epoch, inputs, targets) {
      const each = length * dtypeBytes(stored.input), rows = new Uint8Array(indices.length * each);
      reader.readPart(indices, epoch, rows, new Uint8Array(indices.length * stored.target));
      const row = (all: Int32Array, i: number) => all.subarray(i * length, (i + 1) * length);
      indices.forEach((index, i) =>
        hide(
          rows.subarray(i * each, (i + 1) * each),
          row(words(inputs), i),
          row(words(targets), i),
          index,
          epoch,
        )
      );
    },
    close: () => reader.close(),
  };
}

const reader: ReaderModule<MaskedSpec> = {
  load: ({ inner }) => loadReader(inner),
  open,
  openWhole,
};

const maskedReader = noteReader(import.meta.url, reader);

export default reader;

/** A window's tokens, of which some are hidden; the targets are those. */
export function withHidden(source: Source, hiding: Hiding): Source {
  const [length] = source.input.shape, { threaded } = source;
  const field = (of: Field, name: string): Field => ({ ...of, name, shape: [length], dtype: "i64" });
  const made: Source = {
    ...source,
    ...{ input: field(source.input, source.input.name), target: field(source.target, "hidden tokens") },
    bytesPerToken: undefined, // the loss is not of all tokens
    ...(threaded ? ofFiles(threaded, hiding, length) : inMemory(source, hiding, length)),
  };
  const whole = scope(() => {
    const { input, target } = batchOf(made, plainPart([0]));
    return input.dtype === "i64" && target.dtype === "i64";
  });
  return whole ? made : finishThen(made, ({ input, target }) => ({
    input: toDtype(input, "i64"),
    target: toDtype(target, "i64"),
  }));
}

function ofFiles(threaded: NonNullable<Source["threaded"]>, hiding: Hiding, length: number) {
  const { input, target, reader: inner } = threaded;
  const elements = target.shape.reduce((product, size) => product * size, 1);
  const spec: MaskedSpec = {
    ...{ module: maskedReader, inner, hiding, length },
    ...(inner.grouped && { grouped: true }),
    ...(inner.whole && { whole: true }),
    stored: { input: input.dtype, target: elements * dtypeBytes(target.dtype) },
  };
  const now = {
    ...threaded,
    reader: spec,
    input: { ...input, dtype: "i32" as const },
    target: { ...target, shape: [length], dtype: "i32" as const },
  };
  return { threaded: now, ...readRows(now) };
}

/** Rows are taken as they lie, and hidden in memory of the batch's own. */
function inMemory(source: Source, hiding: Hiding, length: number): Pick<Source, "raw"> {
  const hides = new Map<DType, Hide>();
  return {
    raw: (part: Part, into?: Batch): Batch => {
      const rows = () => uninitialised([part.ids.length, length], { dtype: "i32" });
      const made = into ?? { input: rows(), target: rows() };
      scope(() => {
        const { input } = source.raw(part), { dtype } = input, bytes = borrowBytes(input);
        const hide = hides.get(dtype) ?? openHiding(hiding, dtype, length);
        hides.set(dtype, hide);
        const each = bytes.length / part.ids.length;
        const inputs = words(borrowBytes(made.input)), targets = words(borrowBytes(made.target));
        part.ids.forEach((id, i) => {
          const at = i * length, index = source.indices ? source.indices[id] : id;
          const row = bytes.subarray(i * each, (i + 1) * each);
          hide(row, inputs.subarray(at, at + length), targets.subarray(at, at + length), index, part.epoch);
        });
      });
      return made;
    },
  };
}
