// Named columns of numbers -> samples to train and validate with: what npz, csv, NetCDF and HDF5 share.
// May import errors, config, its siblings, ffi.
import { type DType, dtypeBytes } from "../../ffi/dtype.ts";
import { indexSelect, toDtype } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Config } from "../config/settings.ts";
import { UserError } from "../errors.ts";
import { formatPlural } from "../format.ts";
import type { Facts } from "../models/model.ts";
import { MOST_POSITIONS } from "../random.ts";
import { chooseColumns } from "./choose_columns.ts";
import { type Field, joinColumns, storedType } from "./column_tensors.ts";
import { classTargets } from "./class_targets.ts";
import { indexTensor } from "./memory.ts";
import { heldOut, splitIndices } from "./order.ts";
import { checkRoom } from "./room.ts";
import { type Source, source } from "./source.ts";

export interface Column {
  readonly name: string;
  /** The first dimension is the sample. */
  readonly shape: readonly number[];
  /** Of what read() gives; NaN stands for a missing value. */
  readonly dtype: DType;
  /** All values, row-major, in this machine's byte order. Called once, and only for a column that was chosen. */
  read(): ArrayBufferView;
  /** Floats only because a missing value is NaN: the others are whole numbers, so they can be classes. */
  readonly whole?: boolean;
  /** Its numbers 0, 1, 2, ... stand for texts; such a column can be nothing but the one target. */
  readonly text?: {
    /** One of the texts and where it stands: '"red" in line 2'. */
    readonly example: string;
    classes(): readonly string[];
  };
  /** Neither feature nor target unless the user names it: a coordinate, say. */
  readonly onlyByName?: boolean;
  /** Why nobody can use it, to be put after its name: "holds Python objects". */
  readonly unusable?: string;
}

export interface Table<C extends Column = Column> {
  readonly path: string;
  /** What a column is called there: "column", "array", "variable", "dataset". */
  readonly noun: string;
  readonly columns: readonly C[];
  /** Known once all chosen columns were read: 1 for a row that is marked as no sample at all, such as land in a sea. */
  absent?(): Uint8Array;
}

export interface ColumnSettings {
  readonly data: Config["data"];
  readonly training: Pick<Config["training"], "seed" | "loss" | "ignore_index">;
  readonly model: Config["model"];
}

export interface FromColumns {
  readonly train: Source;
  readonly val: Source | null;
  readonly notes: readonly string[];
}

export function fromColumns(table: Table, settings: ColumnSettings): FromColumns {
  const { path } = table;
  const { features, targets } = chooseColumns(table, settings.data);
  const samples = sampleCount(table, [...features, ...targets]);
  checkTexts(table, features, targets);
  checkRoom(path, bytesOf(features) + bytesOf(targets), samples, "Choose fewer with --features.");
  return scope(() => {
    const input = joinColumns(table, features);
    const target = joinColumns(table, targets);
    const notes = [...input.notes, ...target.notes];
    const kept = goodRows(table, [input, target], samples, settings.data.bad_samples, notes);
    const answer = taskOf(table, targets, input, target, settings, notes);
    const { train, val } = split(kept, samples, settings, notes);
    for (const t of [input.values, answer.values]) keep(t);
    const make = (rows: Int32Array) =>
      source({
        name: path,
        length: rows.length,
        task: answer.task,
        outputs: answer.outputs,
        fields: ["features", "targets"],
        description: `${path}: ${sizeOf(input.values)} -> ${answer.said}`,
        batch(ids) {
          const index = indexTensor(ids.map((id) => rows[id]));
          return {
            input: toDtype(indexSelect(input.values, 0, index), "f32"),
            target: toDtype(indexSelect(answer.values, 0, index), answer.dtype),
          };
        },
      });
    return { train: make(train), val: val.length > 0 ? make(val) : null, notes };
  });
}

interface Answer {
  readonly values: Tensor;
  /** What the loss wants. */
  readonly dtype: DType;
  readonly task: Facts["task"];
  readonly outputs: number;
  readonly said: string;
}

/** Classes when the one target is whole numbers, unless the loss or the model's outputs say that it is a quantity. */
function taskOf(
  table: Table,
  targets: readonly Column[],
  input: Field,
  target: Field,
  { training, model }: ColumnSettings,
  notes: string[],
): Answer {
  const { loss } = training;
  const numeric = !["auto", "cross_entropy", "bce"].includes(loss) || model.output_size === 1;
  const [first] = targets;
  const whole = first.whole || first.text || !/^(f|bf)\d/.test(first.dtype);
  const classes = targets.length === 1 && (first.text || (!numeric && (whole || loss === "cross_entropy")))
    ? classTargets(table, first, target, input.values.shape, training.ignore_index)
    : null;
  if (classes) {
    notes.push(classes.note);
    return { ...classes, dtype: "i64", said: `${classes.outputs} classes` };
  }
  const outputs = target.values.shape[1];
  if (whole && numeric && targets.length === 1) {
    const why = loss === "auto" ? `model.output_size is ${model.output_size}` : `the loss is ${loss}`;
    notes.push(`Target ${first.name} is whole numbers, taken as a quantity because ${why}`);
  }
  return {
    values: target.values,
    dtype: "f32",
    task: "regression",
    outputs,
    said: outputs === 1 ? "1 number" : `${outputs} numbers`,
  };
}

/** Rows without NaN or infinity; null where that is all of them. */
function goodRows(
  { path, noun, absent: marked }: Table,
  fields: readonly Field[],
  samples: number,
  mode: "fail" | "skip",
  notes: string[],
): Int32Array | null {
  const absent = marked?.();
  const bad = fields.flatMap((field) => field.bad).flatMap(({ name, rows }) => {
    const judged = absent ? rows.map((ok, i) => ok | absent[i]) : rows;
    return judged.includes(0) ? [{ name, rows: judged }] : [];
  });
  const without = absent?.reduce((sum, one) => sum + one, 0) ?? 0;
  if (without > 0) notes.push(`Left out ${without} of ${formatPlural(samples, "sample")} marked as missing`);
  if (bad.length === 0 && without === 0) return null;
  const told = bad.map(({ name, rows }) => `${name} (${rows.reduce((sum, ok) => sum + 1 - ok, 0)})`);
  if (mode === "fail" && bad.length > 0) {
    const { name, rows } = bad[0];
    throw new UserError(
      "data",
      `${path}: the ${noun} "${name}" is NaN, infinite or missing in ${
        rows.reduce((sum, ok) => sum + 1 - ok, 0)
      } ` +
        `of ${formatPlural(samples, "sample")}, first in sample ${rows.indexOf(0)} (counted from 0)` +
        `${bad.length > 1 ? `; so are others: ${told.slice(1).join(", ")}` : ""}. ` +
        "Repair them, or leave such samples out with --bad-samples skip.",
    );
  }
  const kept = Int32Array.from({ length: samples }, (_, i) => i).filter((i) =>
    absent?.[i] !== 1 && bad.every(({ rows }) => rows[i] === 1)
  );
  if (kept.length === 0) {
    throw new UserError(
      "data",
      `${path}: no sample is left without NaN or missing values` +
        `${told.length > 0 ? `: ${told.join(", ")}` : ""}. Choose others with --features and --targets.`,
    );
  }
  if (bad.length === 0) return kept;
  notes.push(
    `Left out ${samples - without - kept.length} of ${
      formatPlural(samples, "sample")
    } with NaN, infinite or missing ` +
      `values (--bad-samples skip): ${told.join(", ")}`,
  );
  return kept;
}

/** Seeded and disjoint, as rows of the table. */
function split(
  kept: Int32Array | null,
  samples: number,
  { data, training }: ColumnSettings,
  notes: string[],
) {
  const total = kept?.length ?? samples;
  const held = data.val_samples === 0 ? 0 : heldOut(total, data.validation_split);
  const part = { train: Math.min(data.train_samples, total - held), val: Math.min(data.val_samples, held) };
  const unused = total - part.train - part.val;
  if (unused > 0) {
    notes.push(
      `Not used: ${formatPlural(unused, "sample")}, because train_samples is ${data.train_samples} and ` +
        `val_samples ${data.val_samples}`,
    );
  }
  const chosen = splitIndices(total, part, training.seed);
  const rows = (ids: Int32Array) => kept ? ids.map((id) => kept[id]) : ids;
  return { train: rows(chosen.train), val: rows(chosen.val) };
}

function sampleCount({ path, noun }: Table, columns: readonly Column[]): number {
  const flat = columns.find((column) => column.shape.length === 0);
  if (flat) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${flat.name}" is a single number, not one value a sample. ` +
        "Leave it out by naming the others with --features and --targets.",
    );
  }
  const samples = columns[0].shape[0];
  const other = columns.find((column) => column.shape[0] !== samples);
  if (other) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${columns[0].name}" has ${
        formatPlural(samples, "sample")
      }, but "${other.name}" ` +
        `has ${other.shape[0]} (their shapes: ${sizes(columns[0])} and ${sizes(other)}). ` +
        "Choose some of one length with --features and --targets.",
    );
  }
  if (samples === 0 || columns.some((column) => column.shape.includes(0))) {
    throw new UserError("data", `${path} holds no samples: the ${noun} "${columns[0].name}" is empty.`);
  }
  if (samples > MOST_POSITIONS) {
    throw new UserError(
      "data",
      `${path} has ${samples} samples, more than the ${MOST_POSITIONS} that can be put in order.`,
    );
  }
  return samples;
}

function checkTexts({ path, noun }: Table, features: readonly Column[], targets: readonly Column[]): void {
  const found = [...features, ...(targets.length > 1 ? targets : [])].find((column) => column.text);
  if (found) {
    throw new UserError(
      "data",
      `${path}: the ${noun} "${found.name}" holds text (${
        found.text!.example
      }), and only a single target may: ` +
        "its texts are then classes. Leave it out by naming the others with --features, or put numbers in its place.",
    );
  }
}

const sizes = ({ shape }: Column) => `[${shape.join(", ")}]`;

function sizeOf({ shape: [, channels, ...rest] }: Tensor): string {
  return rest.length === 0
    ? formatPlural(channels, "feature")
    : `maps of [${[channels, ...rest].join(", ")}]`;
}

const product = (shape: readonly number[]) => shape.reduce((total, size) => total * size, 1);

/** While it is put together: the whole field, and twice the largest column, as read and as a tensor. */
function bytesOf(columns: readonly Column[]): number {
  const each = columns.map(({ shape, dtype }) => product(shape) * dtypeBytes(dtype));
  const stored = dtypeBytes(storedType(columns));
  return columns.reduce((sum, { shape }) => sum + product(shape) * stored, 0) + 2 * Math.max(...each);
}
