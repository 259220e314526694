// What can be seen of data of any kind without choosing what to train with. May import types of its siblings.
import type { Raster } from "./picture.ts";

export type Values = ArrayLike<number> | ArrayLike<bigint>;

/** A column, array, variable or dataset. */
export interface PreviewField {
  readonly name: string;
  /** The first dimension numbers the samples. */
  readonly shape: readonly number[];
  readonly dtype: string;
  /** One name a dimension, where they have some. */
  readonly dimensions?: readonly string[];
  readonly units?: string;
  /** Why it can't be trained with, or isn't unless it is named. */
  readonly remark?: string;
  /** What its numbers 0, 1, 2, ... stand for. */
  readonly texts?: readonly string[];
  /** Rows of it, missing values as NaN; null where it has no numbers. */
  readonly read: ((first: number, count: number) => Values) | null;
}

/** Samples that can be looked at. */
export interface Pictures {
  /** Which field they are of. */
  readonly field: string;
  readonly count: number;
  raster(sample: number): Raster;
  /** So many of them, where nobody chose one; the first ones unless told. */
  some?(count: number): number[];
  /** What the sample is, in a word: its class. */
  caption?(sample: number): string;
}

export interface Preview {
  readonly path: string;
  /** "npz archive", "images in class folders", ... */
  readonly kind: string;
  /** Of the files; null where they are too many to be asked. */
  readonly bytes: number | null;
  /** Null where the fields don't agree on it. */
  readonly samples: number | null;
  /** What a row of a field is called; "sample" unless told. */
  readonly row?: string;
  /** What a field is called there: "array", "variable", ... */
  readonly noun: string;
  /** What else there is to know. */
  readonly facts: Readonly<Record<string, string>>;
  readonly fields: readonly PreviewField[];
  readonly classes: readonly { readonly name: string; readonly samples: number }[] | null;
  readonly pictures: Pictures | null;
}
