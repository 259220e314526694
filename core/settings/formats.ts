// The kinds of data by the names that users write, each with a line about it. core/data/open/formats.ts opens them.
import { PARTS } from "../parts.ts";

type Kinds<E> = E extends { readonly kinds: infer K } ? keyof K : never;
type Seam = typeof PARTS.formats;
export type DataKind = Kinds<Seam[keyof Seam]>;

export const DATA_KINDS = Object.assign(
  {},
  ...Object.values(PARTS.formats).map(({ kinds }) => kinds),
) as Readonly<Record<DataKind, string>>;

export const DATA_KIND_NAMES = Object.keys(DATA_KINDS) as DataKind[];
