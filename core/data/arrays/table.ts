// Files hold variables with dimensions and attributes, or tables of named columns.
import type { DecodingRule, Floats, VariableValues } from "./numbers.ts";
import type { DType } from "../../../ffi/dtype.ts";
import type { Rows } from "./rows.ts";
import type { Tensor } from "../../../ffi/tensor.ts";

export interface Column {
  readonly name: string;
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** Values are row-major in this machine's byte order. Only chosen columns are read, once. */
  read(): ArrayBufferView;
  /** The same, exactly, where read() gives no more than f32 holds. */
  doubles?(): Float64Array;
  /** The values are floats only because a missing value is NaN, so they can still be classes. */
  readonly whole?: boolean;
  /** The numbers 0, 1, 2, ... stand for texts; such a column can only be the one target. */
  readonly text?: {
    /** It names one text and its place: '"red" in line 2'. */
    readonly example: string;
    classes(): readonly string[];
  };
  readonly onlyByName?: boolean;
  /** It is the same for all samples. */
  readonly isStatic?: boolean;
  /** The reason follows the name: "holds Python objects". */
  readonly unusable?: string;
  readonly dimensions?: readonly string[];
  readonly units?: string;
  /** Times with units such as "days since 1979-01-01" are dates of it. */
  readonly calendar?: string;
  /** It reads single rows; a column without it can only be read whole. */
  readonly stream?: ColumnStream;
  /** Threads may share the reading of these values, which read() unpacks. */
  readonly stored?: StoredValues;
}

export interface StoredValues {
  readonly variable: Variable;
  readonly raw: DType;
  /** Bits of the floats that are missing, where all else is as it is meant; null where values are packed otherwise. */
  readonly fills: readonly number[] | null;
  /** It makes what read() gives of all stored values, which may be the same memory; null where they are that already. */
  readonly unpack: ((from: VariableValues, to: Floats, absent?: Uint8Array) => void) | null;
}

export interface ColumnStream {
  /** A string says why the rows have no place of their own, and follows the column's name. */
  rows(): Rows | string;
  /** The rule turns the stored type into what read() gives. */
  readonly raw: DType;
  readonly rule: DecodingRule | null;
}

export interface SideBySide {
  /** [rows, columns], as f32. */
  readonly values: Tensor;
  /** By column: it may have numbers that are not finite, or whole ones that floats have no room for. */
  readonly marked: readonly boolean[];
}

export interface Table<C extends Column = Column> {
  readonly path: string;
  readonly noun: string;
  readonly columns: readonly C[];
  /** Samples lie along these dimensions; the last one varies fastest. By default they are a list. */
  readonly grid?: readonly { readonly name: string; readonly size: number }[];
  /** Columns of one number each are read at once, which is faster; null where it can't be done. */
  sideBySide?(columns: readonly C[]): SideBySide | null;
  /** Known once all chosen columns are read: 1 marks a row that is no sample, such as land in a sea. */
  absent?(): Uint8Array;
}

export interface Variable {
  readonly name: string;
  readonly shape: readonly number[];
  /** Variables with the same dimensions lie on the same grid. */
  readonly dimensions: readonly string[];
  readonly dtype: DType | null;
  readonly attributes: ReadonlyMap<string, readonly number[] | string>;
  /** A coordinate or another description is no feature unless it is named. */
  readonly auxiliary: boolean;
  /** The reason follows the variable's name. */
  readonly unusable?: string;
  /** Files disagree in it, so choosing it is refused; the reason follows the variable's name. */
  readonly conflict?: string;
  /** The numbers 0, 1, 2, ... stand for these. */
  readonly labels?: readonly string[];
  /** Joined files are packed in different ways: samples of the first file, then those of the next. */
  readonly packings?: readonly VariablePacking[];
  read(): Uint8Array;
  /** Row by row along the first `lead` dimensions; a string says why not, and follows the variable's name. */
  rows(lead: number): Rows | string;
}

export interface VariablePacking {
  readonly samples: number;
  readonly attributes: Variable["attributes"];
}

export interface VariableColumn extends Column {
  readonly variable: Variable;
  readMarking(absent: Uint8Array): ArrayBufferView;
  rowsAt(lead: number): Rows | string;
  /** A column of another variable, by the same rules. */
  of(variable: Variable): VariableColumn;
  readonly stream: ColumnStream;
}

/** Nobody reads what is unusable. */
export function unreachable(): never {
  throw new Error("internal: something unusable is read");
}
