// HDF5 files by HDF5's own library: all that our reader (own.ts) doesn't foresee. May import errors, its siblings, arrays,
// hdf5_library.
import type { Dataset, Entity, File } from "../../../deps/h5wasm.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";
import { UserError } from "../../errors.ts";
import { markOf } from "../arrays/file.ts";
import { hdf5Rows } from "../arrays/hdf5_rows.ts";
import {
  attempt,
  elsewhere,
  followsOtherFiles,
  hdf5Library,
  type Library,
  openFileOf,
  readAll,
  readSlice,
} from "../hdf5_library.ts";
import type { Variable } from "../variables.ts";
import {
  dtypeOf,
  type Facts,
  type Hdf5,
  isBareDimension,
  NETCDFS,
  NETCDFS_ROOT,
  NUMBERS,
  plainName,
  reasonAgainst,
  TEXTS,
} from "./meaning.ts";

/** The file stays open while `use` runs. */
export function byLibrary<R>(path: string, use: (content: Hdf5) => R): R {
  const library = hdf5Library();
  const size = Deno.statSync(path).size;
  const file = attempt(path, () => openFileOf(library, path));
  try {
    const result = use(attempt(path, () => contentOf(library, path, file)));
    // The library takes what is missing at the end of a file for zeros.
    if (Deno.statSync(path).size < size) {
      throw new UserError(
        "data",
        `${path} became shorter while it was being read: is something else writing it?`,
      );
    }
    return result;
  } finally {
    file.close();
  }
}

function contentOf(library: Library, path: string, file: File): Hdf5 {
  const { module } = library;
  // Each link once, without what lies behind a second link to the same group: a way round a circle ends here.
  const known = new Set(file.paths());
  const variables: Variable[] = [];
  let isNetcdf = module.get_attribute_names(file.file_id, "/").includes(NETCDFS_ROOT);
  const visit = (prefix: string, names: readonly string[]) => {
    for (const name of names.map((name) => prefix + name)) {
      if (!known.has(name)) continue;
      const entity = file.get(name);
      if (entity instanceof library.Group) visit(`${name}/`, entity.keys());
      else if (entity instanceof library.Dataset) {
        const attributes = entity.attrs;
        isNetcdf ||= NETCDFS.some((name) => name in attributes);
        if (isBareDimension(textOf(attributes.NAME?.value))) continue;
        variables.push(variableOf(library, path, entity, name));
      } else if (!(entity instanceof library.Datatype)) variables.push(linkOf(name, entity));
    }
  };
  visit("", file.keys());
  return { variables, isNetcdf };
}

function variableOf(library: Library, path: string, dataset: Dataset, name: string): Variable {
  const { attrs } = dataset;
  const facts = factsOf(dataset);
  const shape = facts.shape ?? [];
  const dtype = dtypeOf(facts);
  const isScale = textOf(attrs.CLASS?.value) === "DIMENSION_SCALE";
  const unusable = reasonAgainst(facts);
  const what = `${path}: ${name}`;
  return {
    name: plainName(name),
    shape,
    dimensions: shape.map((size, i) =>
      isScale && shape.length === 1
        ? name
        : dataset.get_attached_scales(i)[0]?.replace(/^\//, "") ?? `size ${size}`
    ),
    dtype,
    attributes: attributesOf(attrs),
    auxiliary: isScale,
    unusable,
    read: () => attempt(what, () => readAll(what, dataset, dtypeBytes(dtype!))),
    rows: (lead) =>
      attempt(what, () => hdf5Rows(describe(library, what, path, dataset, dtypeBytes(dtype!)), lead)),
  };
}

function describe({ module }: Library, what: string, path: string, dataset: Dataset, width: number) {
  const { metadata: { shape, chunks, littleEndian }, filters } = dataset;
  const reference = module.create_object_reference(dataset.file_id, dataset.path);
  return {
    file: markOf(path),
    name: dataset.path,
    shape: shape!,
    chunk: chunks,
    width,
    bigEndian: !littleEndian && width > 1,
    filters,
    address: Number(new DataView(Uint8Array.from(reference).buffer).getBigUint64(0, true)),
    slice: (first: readonly number[], counts: readonly number[]) =>
      readSlice(what, dataset, first, counts, width),
  };
}

const linkOf = (name: string, entity: Entity | null): Variable => ({
  name,
  shape: [],
  dimensions: [],
  dtype: null,
  attributes: new Map(),
  auxiliary: true,
  unusable: entity !== null && "filename" in entity
    ? followsOtherFiles()
      ? `is a link into another file (${entity.filename}), which is not there`
      : elsewhere(String(entity.filename))
    : "is a link to nothing, or no dataset",
  read: unusable,
  rows: unusable,
});

function unusable(): never {
  throw new Error("internal: something unusable is read");
}

function attributesOf(attrs: Dataset["attrs"]): Variable["attributes"] {
  const found = new Map<string, readonly number[] | string>();
  for (const [name, attribute] of Object.entries(attrs)) {
    if (TEXTS.test(name)) found.set(name, textOf(attribute.value));
    else if (NUMBERS.test(name)) {
      const numbers = [attribute.value].flat().flatMap((part) =>
        ArrayBuffer.isView(part) ? [...part] : [part]
      );
      if (numbers.every((value) => typeof value === "number" || typeof value === "bigint")) {
        found.set(name, numbers.map(Number));
      }
    }
  }
  return found;
}

const textOf = (value: unknown): string => {
  const text = Array.isArray(value) ? value[0] : value;
  return typeof text === "string" ? text : "";
};

function factsOf({ metadata, filters }: Dataset): Facts {
  const { type, size, signed, shape, enum_type, virtual_sources } = metadata;
  return {
    ...{ kind: type, size, signed, shape, filters },
    names: enum_type ? new Map(Object.entries(enum_type.members)) : null,
    virtual: (virtual_sources?.length ?? 0) > 0,
  };
}
