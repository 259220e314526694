// The arrays of a Zarr store, found by its consolidated metadata, or else folder by folder.
import { join } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import type { FileBytes } from "../../../base/file_bytes.ts";
import { isFolder, namesIn } from "../../files.ts";
import { isObject, type Json, type JsonObject, readJson } from "./json.ts";

export interface FoundArray {
  /** The path inside the store; "" where the store is a single array. */
  readonly name: string;
  readonly folder: string;
  /** The file that the metadata come from. */
  readonly metadata: string;
  readonly version: 2 | 3;
  readonly array: JsonObject;
  readonly attributes: JsonObject;
}

export interface Store {
  readonly arrays: readonly FoundArray[];
  /** Attributes of groups: what they call coordinates are no features. */
  readonly groups: readonly JsonObject[];
}

const V3 = "zarr.json", ARRAY = ".zarray", GROUP = ".zgroup", ATTRIBUTES = ".zattrs", ALL = ".zmetadata";

const isFile = (path: string): boolean => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
};

export const isStore = (path: string): boolean =>
  isFolder(path) && [V3, GROUP, ARRAY, ALL].some((name) => isFile(join(path, name)));

type Open = (path: string) => FileBytes;

export function readStoreAt(path: string, open: Open): Store {
  const json = (...names: string[]): JsonObject | null => {
    const file = join(path, ...names);
    return isFile(file) ? readJson(open(file)) : null;
  };
  const root = json(V3);
  if (root) {
    const { consolidated_metadata: all } = root;
    const inside = isObject(all) && isObject(all.metadata) ? all.metadata : null;
    return inside ? consolidated3(path, root, inside) : walk(path, json);
  }
  const all = json(ALL)?.metadata;
  return isObject(all) ? consolidated2(path, all) : walk(path, json);
}

const attributesOf = (node: JsonObject | null): JsonObject => {
  const found = node?.attributes;
  return isObject(found) ? found : {};
};

function consolidated3(path: string, root: JsonObject, inside: JsonObject): Store {
  const arrays: FoundArray[] = [], groups = [attributesOf(root)];
  const metadata = join(path, V3);
  for (const [name, node] of nodes(path, inside)) {
    if (node.node_type === "group") groups.push(attributesOf(node));
    else {
      const folder = join(path, name);
      arrays.push({ name, folder, metadata, version: 3, array: node, attributes: attributesOf(node) });
    }
  }
  return { arrays, groups };
}

function consolidated2(path: string, all: JsonObject): Store {
  const arrays: FoundArray[] = [], groups: JsonObject[] = [];
  const metadata = join(path, ALL), known = new Map(nodes(path, all));
  for (const [key, node] of known) {
    const cut = key.lastIndexOf("/"), name = key.slice(0, Math.max(cut, 0)), kind = key.slice(cut + 1);
    const attributes = known.get(name === "" ? ATTRIBUTES : `${name}/${ATTRIBUTES}`) ?? {};
    if (kind === GROUP) groups.push(attributes);
    if (kind === ARRAY) {
      arrays.push({ name, folder: join(path, name), metadata, version: 2, array: node, attributes });
    }
  }
  return { arrays, groups };
}

/** Names come from a file and become paths, which must not lead out of the store. */
function nodes(path: string, found: JsonObject): [string, JsonObject][] {
  return Object.entries(found).filter((entry): entry is [string, JsonObject] => isObject(entry[1] as Json))
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

function walk(path: string, json: (...names: string[]) => JsonObject | null): Store {
  const arrays: FoundArray[] = [], groups: JsonObject[] = [], known = new Set<string>();
  const visit = (name: string, depth: number): void => {
    const folder = join(path, name), real = Deno.realPathSync(folder);
    // A link may lead back to a folder around it.
    if (known.has(real) || depth > MOST_DEPTH || known.size > MOST_NODES) return;
    known.add(real);
    const node = json(name, V3);
    if (node?.node_type === "array") {
      const attributes = attributesOf(node);
      arrays.push({ name, folder, metadata: join(folder, V3), version: 3, array: node, attributes });
      return;
    }
    const array = node ? null : json(name, ARRAY);
    if (array) {
      const attributes = json(name, ATTRIBUTES) ?? {}, metadata = join(folder, ARRAY);
      arrays.push({ name, folder, metadata, version: 2, array, attributes });
      return;
    }
    if (!node && !isFile(join(folder, GROUP)) && depth > 0) return;
    groups.push(node ? attributesOf(node) : json(name, ATTRIBUTES) ?? {});
    for (const child of namesIn(folder)) {
      if (!child.startsWith(".") && isFolder(join(folder, child))) {
        visit(name === "" ? child : `${name}/${child}`, depth + 1);
      }
    }
  };
  visit("", 0);
  return { arrays, groups };
}
