// Writes TensorBoard's event files, in the writing thread: one for each start of the run, in the run's folder.
import { Buffer } from "node:buffer";
import { join } from "../../../deps/path.ts";
import { EXIT } from "../../base/errors.ts";
import { writeAll, writeAtomically } from "../../base/atomic.ts";
import type { Event, Note } from "../../run/events.ts";
import type { Sink } from "../../run/output.ts";
import { type AppendedFile, openAppended } from "../append.ts";
import { waitsForEvaluation } from "../rows.ts";
import { eachScalar, eachSystemScalar, hasScalars, type PutScalar, slowClock } from "../scalars.ts";
import { onceBegun, type TrackedRun } from "../tracked.ts";
import { messageField, messageFields, numberField, ProtoWriter, readProto, textField } from "../proto.ts";

export const openSink = (run: unknown): Sink => onceBegun(() => openSummaryFile(run as TrackedRun));

function openSummaryFile(run: TrackedRun): Required<Sink> {
  const { folder, resumed } = run;
  if (resumed !== null) { for (const path of eventFilesIn(folder)) forget(path, run); }
  const encoder = openEncoder(), isSlow = slowClock();
  const now = Date.now() / 1000;
  let file = begin(now);
  let last = resumed?.step ?? 0;

  function begin(t: number): AppendedFile {
    const file = openAppended(join(folder, newName(folder, t)), 0);
    file.append(encoder.version(t));
    if (resumed !== null) file.append(encoder.restart(t, resumed.step + 1));
    file.append(encoder.summary(t, 0, (to) => to.start(run.hyperparameters, run.began)));
    return file;
  }
  const add = (t: number, step: number, body: (to: SummaryWriter) => void) =>
    file.append(encoder.summary(t, step, body));
  const scalars = (t: number, step: number, each: (put: PutScalar) => void) => {
    last = Math.max(last, step);
    add(t, step, (to) => each((name, value) => to.scalar(name, value)));
  };

  return {
    write(event: Event) {
      if (hasScalars(event)) {
        if (event.kind === "times" && event.steps === 0) return;
        const slow = event.kind !== "step" || isSlow(event.t);
        scalars(event.t, event.step, (put) => eachScalar(event, put, slow));
        if (event.kind === "epoch" && file.gone) file = begin(event.t); // somebody has removed it
      } else if (event.kind === "system") {
        scalars(
          event.t,
          event.step,
          (put) => eachSystemScalar(event, (name, value) => put(`system/${name}`, value)),
        );
      }
    },
    note(note: Note) {
      if (note.kind === "histograms") {
        add(note.t, note.step, (to) => {
          for (const [name, of] of Object.entries(note.of)) to.histogram(name, of);
        });
      } else if (note.kind === "pictures") {
        add(
          note.t,
          note.step,
          (to) =>
            note.pictures.forEach(({ png, width, height }, i) =>
              to.picture(`${note.name}/${i}`, { png: Buffer.from(png, "base64"), width, height })
            ),
        );
      }
    },
    close(exitCode) {
      try {
        if (exitCode === undefined || exitCode === EXIT.stopped) return; // it goes on
        const status = exitCode === EXIT.done ? SESSION.success : SESSION.failure, t = Date.now() / 1000;
        add(t, last, (to) => to.end(status, t));
      } finally {
        file.close();
      }
    },
  };
}

const NAME = /^events\.out\.tfevents\.(\d+)\./;

const eventFilesIn = (folder: string): string[] =>
  [...Deno.readDirSync(folder)].flatMap(({ name }) => NAME.test(name) ? [join(folder, name)] : []);

/** TensorBoard reads files in the order of their names, so a clock that was set back must not matter. */
function newName(folder: string, t: number): string {
  const before = [...Deno.readDirSync(folder)].map(({ name }) => Number(NAME.exec(name)?.[1] ?? 0));
  const seconds = Math.max(Math.floor(t), ...before.map((s) => s + 1));
  return `events.out.tfevents.${String(seconds).padStart(10, "0")}.${Deno.hostname()}.${Deno.pid}.0`;
}

/** Takes the steps that are done again from an earlier attempt's file. */
function forget(path: string, { resumed, pace }: TrackedRun): void {
  const { step } = resumed!, again = waitsForEvaluation(step, pace);
  const isRepeated = (record: ReadRecord): boolean =>
    record.step > step || record.tags.some((tag) => tag.startsWith(HPARAMS_TAG)) ||
    (again && record.step === step && (record.pictures || record.tags.some(isOfEvaluation)));
  if (!readRecords(path).some(isRepeated)) return;
  writeAtomically(path, (out) => {
    for (const record of readRecords(path)) if (!isRepeated(record)) writeAll(out, record.bytes);
  }, { sync: false });
}

const isOfEvaluation = (tag: string): boolean => tag.startsWith("val/") || tag === "train/epoch_loss";

// TensorBoard's event files: records of TFRecord with protocol buffers in them.

// The numbers of fields, as tensorboard/compat/proto and plugins/hparams declare them.
const EVENT = { wallTime: 1, step: 2, fileVersion: 3, summary: 5, sessionLog: 7 };
const VALUE = { tag: 1, simple: 2, image: 4, histogram: 5, tensor: 8, metadata: 9 };
const SUMMARY_VALUE = 1, SESSION_STATUS = 1, SESSION_START = 1;
const IMAGE = { height: 1, width: 2, colours: 3, bytes: 4 };
const HISTOGRAM = { min: 1, max: 2, num: 3, sum: 4, squares: 5, limits: 6, counts: 7 };
const METADATA = { plugin: 1, name: 1, content: 2 };
const TENSOR = { dtype: 1, shape: 2, dimension: 2, size: 1, float: 5 }, DT_FLOAT = 1;
const HPARAMS = { start: 3, end: 4, hparams: 1, name: 1, value: 2, startTime: 5, status: 1, endTime: 2 };
/** google.protobuf.Value. */
const ANY = { number: 2, text: 3, bool: 4 };

type Hyperparameter = string | number | boolean;

interface HistogramSummary {
  readonly values: readonly number[];
  /** There is one more border than values. */
  readonly bins: readonly number[];
}

interface ImageSummary {
  readonly png: Uint8Array;
  readonly width: number;
  readonly height: number;
}

/** Writes the values of one event's summary. */
interface SummaryWriter {
  scalar(tag: string, value: number): void;
  histogram(tag: string, histogram: HistogramSummary): void;
  picture(tag: string, picture: ImageSummary): void;
  /** TensorBoard's table of hyperparameters has a row for the run. */
  start(hyperparameters: Readonly<Record<string, Hyperparameter>>, t: number): void;
  end(status: SessionStatus, t: number): void;
}

const SESSION = { success: 1, failure: 2, running: 3 } as const;
type SessionStatus = (typeof SESSION)[keyof typeof SESSION];

interface EventEncoder {
  /** The first record of a file. */
  version(t: number): Uint8Array;
  /** A reader forgets what it has seen of this step and those after it. */
  restart(t: number, step: number): Uint8Array;
  /** The next call reuses the bytes. */
  summary(t: number, step: number, body: (to: SummaryWriter) => void): Uint8Array;
}

const HPARAMS_TAG = "_hparams_/session_";

function openEncoder(): EventEncoder {
  const proto = new ProtoWriter();
  const event = (t: number, step: number, body: () => void) => {
    proto.reset();
    proto.double(EVENT.wallTime, t);
    proto.int(EVENT.step, step);
    body();
    return framed(proto.bytes());
  };
  const to = summaryWriter(proto);
  return {
    version: (t) => event(t, 0, () => proto.text(EVENT.fileVersion, "brain.Event:2")),
    restart: (t, step) =>
      event(t, step, () => proto.message(EVENT.sessionLog, () => proto.int(SESSION_STATUS, SESSION_START))),
    summary: (t, step, body) => event(t, step, () => proto.message(EVENT.summary, () => body(to))),
  };
}

function summaryWriter(proto: ProtoWriter): SummaryWriter {
  const value = (tag: string, body: () => void) =>
    proto.message(SUMMARY_VALUE, () => {
      proto.text(VALUE.tag, tag);
      body();
    });
  /** The plugin's message is metadata, and its tensor is a zero. */
  const hparams = (tag: string, field: number, body: () => void) =>
    value(HPARAMS_TAG + tag, () => {
      proto.message(VALUE.metadata, () =>
        proto.message(METADATA.plugin, () => {
          proto.text(METADATA.name, "hparams");
          proto.message(METADATA.content, () => proto.message(field, body));
        }));
      proto.message(VALUE.tensor, () => {
        proto.int(TENSOR.dtype, DT_FLOAT);
        proto.message(TENSOR.shape, () => proto.message(TENSOR.dimension, () => proto.int(TENSOR.size, 1)));
        proto.float(TENSOR.float, 0);
      });
    });
  return {
    scalar: (tag, x) => value(tag, () => proto.float(VALUE.simple, x)),
    histogram: (tag, { values, bins }) =>
      value(tag, () => proto.message(VALUE.histogram, () => putHistogram(proto, values, bins))),
    picture: (tag, { png, width, height }) =>
      value(tag, () =>
        proto.message(VALUE.image, () => {
          proto.int(IMAGE.height, height);
          proto.int(IMAGE.width, width);
          proto.int(IMAGE.colours, 3);
          proto.blob(IMAGE.bytes, png);
        })),
    start: (hyperparameters, t) =>
      hparams("start_info", HPARAMS.start, () => {
        for (const [name, x] of Object.entries(hyperparameters)) {
          proto.message(HPARAMS.hparams, () => {
            proto.text(HPARAMS.name, name);
            proto.message(HPARAMS.value, () => putAny(proto, x));
          });
        }
        proto.double(HPARAMS.startTime, t);
      }),
    end: (status, t) =>
      hparams("end_info", HPARAMS.end, () => {
        proto.int(HPARAMS.status, status);
        proto.double(HPARAMS.endTime, t);
      }),
  };
}

/** The sums take each count at the middle of its bin. */
function putHistogram(proto: ProtoWriter, values: readonly number[], bins: readonly number[]): void {
  let num = 0, sum = 0, squares = 0;
  values.forEach((count, i) => {
    const middle = (bins[i] + bins[i + 1]) / 2;
    num += count;
    sum += count * middle;
    squares += count * middle * middle;
  });
  proto.double(HISTOGRAM.min, bins[0]);
  proto.double(HISTOGRAM.max, bins[bins.length - 1]);
  proto.double(HISTOGRAM.num, num);
  proto.double(HISTOGRAM.sum, sum);
  proto.double(HISTOGRAM.squares, squares);
  proto.doubles(HISTOGRAM.limits, bins.slice(1));
  proto.doubles(HISTOGRAM.counts, values);
}

function putAny(proto: ProtoWriter, x: Hyperparameter): void {
  if (typeof x === "number") proto.double(ANY.number, x);
  else if (typeof x === "string") proto.blob(ANY.text, new TextEncoder().encode(x)); // also an empty one
  else proto.present(ANY.bool, x);
}

// A record: the length (8 bytes) and its checksum, the data and its checksum.

const HEAD = 12, FOOT = 4;

let recordBytes = new Uint8Array(1024), view = new DataView(recordBytes.buffer);

function framed(data: Uint8Array): Uint8Array {
  const length = HEAD + data.length + FOOT;
  if (length > recordBytes.length) {
    recordBytes = new Uint8Array(2 * length);
    view = new DataView(recordBytes.buffer);
  }
  view.setUint32(0, data.length, true);
  view.setUint32(4, 0, true);
  view.setUint32(8, maskedSum(recordBytes, 0, 8), true);
  recordBytes.set(data, HEAD);
  view.setUint32(HEAD + data.length, maskedSum(recordBytes, HEAD, HEAD + data.length), true);
  return recordBytes.subarray(0, length);
}

/** CRC-32C, in the order of bits that checksums of files have. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit++) sum = sum & 1 ? (sum >>> 1) ^ 0x82f63b78 : sum >>> 1;
  return sum;
});

export function crc32c(bytes: Uint8Array, from = 0, to = bytes.length): number {
  let sum = 0xffffffff;
  for (let i = from; i < to; i++) sum = TABLE[(sum ^ bytes[i]) & 255] ^ (sum >>> 8);
  return ~sum >>> 0;
}

/** TFRecord rotates it, so that a checksum of data with checksums in it is no trivial one. */
function maskedSum(bytes: Uint8Array, from: number, to: number): number {
  const sum = crc32c(bytes, from, to);
  return (((sum >>> 15) | (sum << 17)) + 0xa282ead8) >>> 0;
}

interface ReadRecord {
  /** With its lengths and checksums; valid until the next one is read. */
  readonly bytes: Uint8Array;
  readonly step: number;
  readonly tags: readonly string[];
  readonly pictures: boolean;
}

const CHUNK = 1 << 20;

/** It ends at the first record that is cut or damaged. */
function* readRecords(path: string): Generator<ReadRecord, undefined> {
  using file = Deno.openSync(path);
  let buffer = new Uint8Array(CHUNK), at = 0, end = 0;
  /** False where the file ends before. */
  const have = (bytes: number): boolean => {
    if (end - at >= bytes) return true;
    const larger = at === 0 || bytes > buffer.length
      ? new Uint8Array(Math.max(buffer.length, 2 * bytes))
      : buffer;
    larger.set(buffer.subarray(at, end));
    [buffer, end, at] = [larger, end - at, 0];
    while (end < bytes) {
      const got = file.readSync(buffer.subarray(end)) ?? 0;
      if (got === 0) return false;
      end += got;
    }
    return true;
  };
  while (have(HEAD)) {
    const length = wordAt(buffer, at);
    if (wordAt(buffer, at + 8) !== maskedSum(buffer, at, at + 8)) return;
    if (!have(HEAD + length + FOOT)) return;
    const from = at + HEAD, to = from + length;
    if (wordAt(buffer, to) !== maskedSum(buffer, from, to)) return;
    yield recordOf(buffer.subarray(at, to + FOOT));
    at = to + FOOT;
  }
}

const wordAt = (bytes: Uint8Array, at: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getUint32(at, true);

function recordOf(bytes: Uint8Array): ReadRecord {
  const event = readProto(bytes.subarray(HEAD, bytes.length - FOOT));
  const summary = messageField(event, EVENT.summary);
  const values = summary === null ? [] : messageFields(summary, SUMMARY_VALUE);
  return {
    bytes,
    step: numberField(event, EVENT.step),
    tags: values.map((value) => textField(value, VALUE.tag)),
    pictures: values.some((value) => value.has(VALUE.image)),
  };
}
