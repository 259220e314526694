// data.stage copies the data to a disk of this node once.
import { basename, dirname, join, relative, resolve } from "../../../deps/path.ts";
import { holdFolder, isFolder } from "../../base/files.ts";
import type { Config } from "../../settings/settings.ts";
import { UserError } from "../../base/errors.ts";
import { formatBytes, formatDuration, formatPlural } from "../../base/format.ts";
import { commonFolder, filesNamed } from "../arrays/paths.ts";
import { digest, fingerprint } from "../arrays/remembered.ts";
import { checkDisk, eachChunk, fileSizeOf, makeFolder, tidy, writeNewSync } from "../../base/new_file.ts";
import { INDEX } from "../shards/schema.ts";
import { looksPacked, readIndex } from "../shards/index.ts";

interface Staged {
  readonly path: string;
  readonly notes: readonly string[];
}

interface Item {
  readonly name: string;
  readonly bytes: number;
  readonly sha256?: string;
}

/** Copying more files than this is slower than packing. */
const MOST_FILES = 1000;
const MARK = ".staged";

/** One process copies; the result is the new place of the data. */
export function stage(
  { data_path, stage }: Config["data"],
  say = (line: string) => console.error(line),
): Staged {
  const files = filesNamed(data_path);
  const from = files ? commonFolder(files) : resolve(data_path);
  const { items, hash } = files ? itemsOfFiles(from, data_path, files) : itemsOf(from);
  const folder = join(resolve(expanded(stage)), `${basename(from)}-${hash.slice(0, 16)}`);
  const path = isFolder(from) ? folder : join(folder, basename(from));
  const bytes = items.reduce((sum, item) => sum + item.bytes, 0);
  const what = `${formatPlural(items.length, "file")}, ${formatBytes(bytes)}`;
  const began = performance.now();
  const seconds = () => formatDuration((performance.now() - began) / 1000);
  makeFolder(folder);
  for (let waits = 0;; waits++) {
    if (isStaged(folder, items)) {
      const found = waits === 0 ? "Staged before" : `Staged by another process in ${seconds()}`;
      return { path, notes: [`${found}: the data is read from ${path} (${what})`] };
    }
    const release = holdFolder(folder);
    if (release) {
      try {
        if (isStaged(folder, items)) continue; // by another, just now
        say(`Staging ${from} (${what}) to ${folder}`);
        copy(isFolder(from) ? from : dirname(from), folder, items);
      } finally {
        release();
      }
      return { path, notes: [`Staged to ${path} in ${seconds()} (${what})`] };
    }
    if (waits === 0) say(`Waiting for another process that stages ${from} to ${folder}`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS);
  }
}

const WAIT_MS = 200;

/** `$TMPDIR` and the like may only be known on the node. */
function expanded(folder: string): string {
  return folder.replace(/\$(?:(\w+)|\{(\w+)\})/g, (all, plain, braced) => {
    const value = Deno.env.get(plain ?? braced);
    if (value) return value;
    throw new UserError(
      "usage",
      `data.stage (--stage) is ${folder}, but ${all} is not set here. Name a folder of this node.`,
    );
  });
}

/** The hash changes whenever the files do. */
function itemsOf(from: string): { items: Item[]; hash: string } {
  const size = fileSizeOf(from);
  if (size < 0) throw new UserError("data", `There is no ${from}. Check data.data_path (--data-path).`);
  if (!isFolder(from)) {
    return { items: [{ name: basename(from), bytes: size }], hash: digest(`${from} ${fingerprint(from)}`) };
  }
  if (looksPacked(from)) {
    const { train, val } = readIndex(from);
    const text = Deno.readTextFileSync(join(from, INDEX));
    const index = { name: INDEX, bytes: new TextEncoder().encode(text).length, sha256: digest(text) };
    return { items: [...train, ...val, index], hash: index.sha256 };
  }
  const names = filesBelow(from, "");
  return {
    items: names.map((name) => ({ name, bytes: fileSizeOf(join(from, name)) })),
    hash: digest(`${from} ${fingerprint(from)}`),
  };
}

function itemsOfFiles(from: string, path: string, files: readonly string[]): { items: Item[]; hash: string } {
  const items = files.map((file) => ({ name: relative(from, resolve(file)), bytes: fileSizeOf(file) }));
  return { items, hash: digest(`${from} ${fingerprint(path)}`) };
}

/** Hidden files are no data. */
function filesBelow(root: string, folder: string, found: string[] = []): string[] {
  for (const { name } of Deno.readDirSync(join(root, folder))) {
    const path = join(folder, name);
    if (name.startsWith(".")) continue;
    if (isFolder(join(root, path))) filesBelow(root, path, found);
    else found.push(path);
    if (found.length <= MOST_FILES) continue;
    throw new UserError(
      "usage",
      `${root} has more than ${MOST_FILES} files, which are slow to copy one by one: pack them first with ` +
        `hpctrain pack ${root} packed, then train with --data-path packed --stage.`,
    );
  }
  return found.sort();
}

const isStaged = (folder: string, items: readonly Item[]): boolean =>
  fileSizeOf(join(folder, MARK)) >= 0 &&
  items.every(({ name, bytes }) => fileSizeOf(join(folder, name)) === bytes);

function copy(from: string, folder: string, items: readonly Item[]): void {
  tidy(folder);
  const missing = items.filter(({ name, bytes }) => fileSizeOf(join(folder, name)) !== bytes);
  checkDisk(
    `Staging ${from}`,
    folder,
    missing.reduce((sum, { bytes }) => sum + bytes, 0),
    "Name a folder on a larger disk with --stage, or train without it.",
  );
  for (const { name, bytes, sha256 } of missing) {
    const source = join(from, name), target = join(folder, name);
    makeFolder(dirname(target));
    writeNewSync(target, (put) => eachChunk(source, put), (written) => {
      if (written.bytes === bytes && (sha256 === undefined || written.sha256 === sha256)) return;
      throw new UserError(
        "data",
        written.bytes === bytes
          ? `${source} is damaged: its checksum is not the one in ${INDEX}. Copy it again, or delete it and run the ` +
            "same pack command again."
          : `${source} has ${written.bytes} bytes, and ${bytes} belong to it. Copy it again.`,
      );
    });
  }
  writeNewSync(join(folder, MARK), (put) => put(new TextEncoder().encode(`${from}\n`)));
}
