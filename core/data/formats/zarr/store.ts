// The arrays of a Zarr store, found by its consolidated metadata, or else folder by folder.
import { UserError } from "../../../base/errors.ts";
import { isUrl } from "../../arrays/paths.ts";
import { ROOTS } from "./format.ts";
import type { StoreFiles } from "./server.ts";
import { isJsonObject, type JsonObject, MOST_METADATA, type ZarrJson } from "./json.ts";

export interface FoundArray {
  /** The path inside the store; "" where the store is a single array. */
  readonly name: string;
  /** The key of the file that the metadata come from. */
  readonly metadata: string;
  readonly version: 2 | 3;
  readonly array: JsonObject;
  readonly attributes: JsonObject;
}

export interface ZarrStore {
  readonly arrays: readonly FoundArray[];
  /** Attributes of groups: what they call coordinates are no features. */
  readonly groups: readonly JsonObject[];
}

const V3 = "zarr.json", ARRAY = ".zarray", GROUP = ".zgroup", ATTRIBUTES = ".zattrs", ALL = ".zmetadata";

export const isStore = (files: StoreFiles): boolean => ROOTS.some((name) => files.has(name));

type ReadJson = (key: string) => JsonObject | null;

export function readStoreAt(path: string, files: StoreFiles): ZarrStore {
  const json: ReadJson = (key) => {
    const bytes = files.whole(key, MOST_METADATA);
    return bytes === null ? null : readJson(`${path}/${key}`, bytes);
  };
  const root = json(V3);
  if (root) {
    const { consolidated_metadata: all } = root;
    const inside = isJsonObject(all) && isJsonObject(all.metadata) ? all.metadata : null;
    return inside ? consolidated3(path, root, inside) : walk(path, files, json);
  }
  const all = json(ALL)?.metadata;
  return isJsonObject(all) ? consolidated2(path, all) : walk(path, files, json);
}

/** A text says what is wrong with the file. */
function readJson(path: string, bytes: Uint8Array | string): JsonObject {
  if (typeof bytes === "string") throw new UserError("data", `${path} ${bytes}: it is damaged.`);
  const text = new TextDecoder().decode(bytes);
  const value = parse(text) ?? parse(withoutOddNumbers(text));
  if (isJsonObject(value)) return value;
  throw new UserError(
    "data",
    `${path} is damaged: it is no JSON. Copy the store again from where it came from.`,
  );
}

function parse(text: string): ZarrJson | undefined {
  try {
    return JSON.parse(text, exact as (this: unknown, key: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/** A double does not hold every whole number of 64 bits. */
const exact = (_: string, value: ZarrJson, { source }: { source?: string } = {}): ZarrJson =>
  typeof value === "number" && !Number.isSafeInteger(value) && source && /^-?\d+$/.test(source)
    ? BigInt(source)
    : value;

/** Python writes numbers that JSON lacks as words; they become texts, as in Zarr's fill values. */
const withoutOddNumbers = (text: string): string =>
  text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (found) => found[0] === '"' ? found : `"${found}"`);

const attributesOf = (node: JsonObject | null): JsonObject => {
  const found = node?.attributes;
  return isJsonObject(found) ? found : {};
};

function consolidated3(path: string, root: JsonObject, inside: JsonObject): ZarrStore {
  const arrays: FoundArray[] = [], groups = [attributesOf(root)];
  for (const [name, node] of nodes(path, inside)) {
    if (node.node_type === "group") groups.push(attributesOf(node));
    else {
      const attributes = attributesOf(node);
      arrays.push({ name, metadata: V3, version: 3, array: node, attributes });
    }
  }
  return { arrays, groups };
}

function consolidated2(path: string, all: JsonObject): ZarrStore {
  const arrays: FoundArray[] = [], groups: JsonObject[] = [];
  const known = new Map(nodes(path, all));
  for (const [key, node] of known) {
    const cut = key.lastIndexOf("/"), name = key.slice(0, Math.max(cut, 0)), kind = key.slice(cut + 1);
    const attributes = known.get(name === "" ? ATTRIBUTES : `${name}/${ATTRIBUTES}`) ?? {};
    if (kind === GROUP) groups.push(attributes);
    if (kind === ARRAY) {
      arrays.push({ name, metadata: ALL, version: 2, array: node, attributes });
    }
  }
  return { arrays, groups };
}

/** Names come from a file and become paths, which must not lead out of the store. */
function nodes(path: string, found: JsonObject): [string, JsonObject][] {
  return Object.entries(found).filter((entry): entry is [string, JsonObject] =>
    isJsonObject(entry[1] as ZarrJson)
  )
    .map(([name, node]) => {
      if (/(^|\/)\.{0,2}(\/|$)|[\0\\]/.test(name)) {
        throw new UserError(
          "data",
          `${path} is damaged: its consolidated metadata name ${
            JSON.stringify(name.slice(0, 100))
          }, which is no ` +
            "array inside of it. Write it again in Python: zarr.consolidate_metadata(STORE).",
        );
      }
      return [name, node];
    });
}

const MOST_DEPTH = 64, MOST_NODES = 65536;

function walk(path: string, files: StoreFiles, json: ReadJson): ZarrStore {
  const arrays: FoundArray[] = [], groups: JsonObject[] = [], known = new Set<string>();
  const visit = (name: string, depth: number): void => {
    const real = files.realName(name), within = (file: string) => name === "" ? file : `${name}/${file}`;
    // A link may lead back to a folder around it.
    if (known.has(real) || depth > MOST_DEPTH || known.size > MOST_NODES) return;
    known.add(real);
    const node = json(within(V3));
    if (node?.node_type === "array") {
      const attributes = attributesOf(node);
      arrays.push({ name, metadata: within(V3), version: 3, array: node, attributes });
      return;
    }
    const array = node ? null : json(within(ARRAY));
    if (array) {
      const attributes = json(within(ATTRIBUTES)) ?? {};
      arrays.push({ name, metadata: within(ARRAY), version: 2, array, attributes });
      return;
    }
    if (!node && !files.has(within(GROUP)) && depth > 0) return;
    groups.push(node ? attributesOf(node) : json(within(ATTRIBUTES)) ?? {});
    const inside = files.foldersIn(name);
    if (inside === null) throw notConsolidated(path);
    for (const child of inside) visit(within(child), depth + 1);
  };
  visit("", 0);
  return { arrays, groups };
}

const notConsolidated = (path: string) =>
  new UserError(
    "data",
    isUrl(path)
      ? `${path} has no consolidated metadata, and a server can't be asked what is in a folder. Write them in ` +
        "Python, where the store is: zarr.consolidate_metadata(STORE)."
      : `${path} can't be listed.`,
  );
