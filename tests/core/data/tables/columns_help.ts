// What the tests of file formats share. Test helper.
import { assertEquals, assertThrows } from "@std/assert";
import type { Config } from "../../../../core/settings/settings.ts";
import type { DataRequest, Sources } from "../../../../core/data/format.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { range, settings } from "./help.ts";

export type Changes = Partial<Config["data"]>;

/** Opens a path with one reader; all samples are for training unless told. */
export const opener = (reader: (settings: DataRequest) => Sources) =>
(
  path: string,
  data: Changes = {},
  training: Partial<Config["training"]> = {},
  model: Partial<Config["model"]> = {},
): Sources => {
  const config = settings({ data: { data_path: path, val_samples: 0, ...data }, model });
  Object.assign(config.training, training);
  return reader(config);
};

/** The sentence of an error of the data. */
export function refusal(open: () => unknown): string {
  const error = assertThrows(open, UserError);
  assertEquals(error.kind, "data", error.message);
  return error.message;
}

/** One field of all samples, which the split of nothing leaves in their order. */
export const all = (source: Source, field: "input" | "target"): number[] =>
  scope(() => [...toNumbers(batchOf(source, plainPart(range(0, source.length)))[field])]);
