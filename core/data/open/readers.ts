// The readers of data that were loaded, by kind.
import { DATA_KIND_NAMES, type DataKind } from "../../settings/formats.ts";
import type { DataReader } from "../format.ts";
import { formatNamed } from "./formats.ts";

const READERS = new Map<DataKind, DataReader>();

/** `readerOf` gives it from then on. */
export async function loadReaderOf(kind: DataKind): Promise<DataReader> {
  const reader = await formatNamed(kind).load();
  READERS.set(kind, reader);
  return reader;
}

export const loadAllReaders = (): Promise<[DataKind, DataReader][]> =>
  Promise.all(DATA_KIND_NAMES.map(async (kind) => [kind, await loadReaderOf(kind)]));

export function readerOf(kind: DataKind): DataReader {
  const reader = READERS.get(kind);
  if (reader) return reader;
  throw new Error(`internal: the reader of ${kind} data is not loaded`);
}
