// The kinds of data, by name. A new one is a folder with its Format, and a line in core/parts.ts.
import { PARTS, type Parts } from "../parts.ts";
import type { DataKind } from "../settings/formats.ts";
import type { Format } from "./format.ts";

const FILES: Parts<Readonly<Partial<Record<string, Format>>>> = PARTS.formats;

export const FORMATS: Readonly<Record<DataKind, Format>> = Object.assign(
  {},
  ...await Promise.all(Object.values(FILES).map(({ load }) => load())),
);
