// Images are listed by class and name, in torchvision's order. A million of them are bytes that threads
// share, not strings sent to each.
import { basename, dirname, join } from "../../../deps/path.ts";
import { messageOf, UserError } from "../../base/errors.ts";
import { BadSample } from "../arrays/rows.ts";
import { type Header, headerOf, openReusedBuffer, type ReusedBuffer } from "./header.ts";
import { partOf } from "../arrays/numbers.ts";

export const IMAGES_READER: string = new URL("./reader.ts", import.meta.url).href;

export interface Listing {
  readonly root: string;
  /** `starts` has a last, empty entry. */
  readonly folders: readonly string[];
  /** Names are joined UTF-8; `ends` has where each ends. */
  readonly starts: Int32Array;
  readonly labels: Int32Array;
  readonly names: Uint8Array;
  readonly ends: Uint32Array;
}

export interface Listed {
  readonly classes: readonly string[];
  readonly listing: Listing;
  /** Files that are no images: how many, and one of them. */
  readonly others: { readonly count: number; readonly example: string };
}

const ENDINGS = ".jpg, .jpeg, .png or .webp";
export const IMAGE_FILE = /\.(jpe?g|png|webp)$/i;
/** A deeper folder comes from a link that leads back. */
const DEEPEST = 40;

interface Folder {
  readonly path: string;
  readonly label: number;
  readonly names: readonly string[];
}

export function listImages(root: string): Listed {
  const classes = foldersIn(root).sort(byCodePoint);
  if (classes.length === 0) throw noClasses(root);
  const others = { count: 0, example: "" };
  const folders = classes.flatMap((name, label) => {
    const found: Folder[] = [];
    walk(root, name, label, found, others);
    if (!found.some(({ names }) => names.length > 0)) throw emptyClass(join(root, name), others.example);
    return found.filter(({ names }) => names.length > 0).sort((a, b) => byCodePoint(a.path, b.path));
  });
  return { classes, listing: pack(root, folders), others };
}

/** An image, or images in a folder without folders of classes; null for others. */
export function looseImages(path: string): Listing | null {
  if (!leadsToFolder(path)) {
    return IMAGE_FILE.test(path)
      ? pack(dirname(path), [{ path: "", label: 0, names: [basename(path)] }])
      : null;
  }
  const names = entriesOf(path)
    .filter(({ name, isFile, isSymlink }) =>
      isFile ? IMAGE_FILE.test(name) : isSymlink && isImage(path, name)
    )
    .map(({ name }) => name).sort(byCodePoint);
  const alone = names.length > 0 && foldersIn(path).length === 0;
  return alone ? pack(path, [{ path: "", label: 0, names }]) : null;
}

/** Images and their label images, in one order. */
export interface ImagePairs {
  readonly images: Listing;
  readonly labels: Listing;
  /** Label images without an image: how many, and one of them. */
  readonly others: { readonly count: number; readonly example: string };
}

const LABEL_FILE = /\.(jpe?g|png|webp|gif)$/i;

/** An image and its label have the same place and name, but for the ending and for what all labels have behind it: 7_mask.gif. */
export function pairImages(root: string, labelRoot: string): ImagePairs {
  const images = below(root), labels = below(labelRoot, LABEL_FILE);
  const stem = (path: string, name: string) => `${path}/${name.replace(/\.\w+$/, "")}`;
  const known = new Map(labels.flatMap(({ path, names }) => names.map((name) => [stem(path, name), name])));
  const behind = commonEnd(images.flatMap(({ path, names }) => names.map((name) => stem(path, name))), known);
  const paired = images.map((folder) => ({
    ...folder,
    names: folder.names.map((name) => {
      const own = stem(folder.path, name) + behind, label = known.get(own);
      if (label === undefined) throw withoutLabel(root, labelRoot, folder.path, name);
      known.delete(own);
      return label;
    }),
  }));
  const [example = ""] = known.values();
  return {
    images: pack(root, images),
    labels: pack(labelRoot, paired),
    others: { count: known.size, example },
  };
}

/** All images have a label of their own name with this behind it. */
function commonEnd(images: readonly string[], labels: ReadonlyMap<string, string>): string {
  const [first] = images;
  if (labels.has(first)) return "";
  const ends = [...labels.keys()].filter((label) => label.startsWith(first)).map((label) =>
    label.slice(first.length)
  );
  return ends.find((end) => images.every((image) => labels.has(image + end))) ?? "";
}

function below(root: string, file = IMAGE_FILE): Folder[] {
  const found: Folder[] = [], others = { count: 0, example: "" };
  walk(root, "", 0, found, others, file);
  const images = found.filter(({ names }) => names.length > 0).sort((a, b) => byCodePoint(a.path, b.path));
  if (images.length > 0) return images;
  throw new UserError("data", `${root} has no images in it: none of its files ends in ${ENDINGS}.`);
}

const withoutLabel = (root: string, labelRoot: string, path: string, name: string): UserError =>
  new UserError(
    "data",
    `${join(root, path, name)} has no label image: ${
      join(labelRoot, path)
    } should have one of the same name but for its ` +
      "ending. Add it, or move the image away.",
  );

export const imageCount = ({ ends }: Listing): number => ends.length;

export const labelOf = (listing: Listing, index: number): number =>
  listing.labels[partOf(listing.starts, index, listing.folders.length)];

export function imagePath(listing: Listing, index: number): string {
  const { root, folders, names, ends } = listing;
  const name = names.slice(index === 0 ? 0 : ends[index - 1], ends[index]);
  return join(
    root,
    folders[partOf(listing.starts, index, listing.folders.length)],
    new TextDecoder().decode(name),
  );
}

function walk(
  root: string,
  path: string,
  label: number,
  found: Folder[],
  others: { count: number; example: string },
  file = IMAGE_FILE,
): void {
  if (path.split("/").length > DEEPEST) {
    throw new UserError(
      "data",
      `${join(root, path)} is ${DEEPEST} folders deep: a link in it leads back to a folder that it is in. ` +
        "Remove that link.",
    );
  }
  const names: string[] = [];
  for (const entry of entriesOf(join(root, path))) {
    const inside = `${path}/${entry.name}`;
    if (entry.isFile ? file.test(entry.name) : entry.isSymlink && isImage(root, inside, file)) {
      names.push(entry.name);
    } else if (isFolder(root, inside, entry)) walk(root, inside, label, found, others, file);
    else if (others.count++ === 0) others.example = inside;
  }
  found.push({ path, label, names: names.sort(byCodePoint) });
}

const isImage = (root: string, path: string, file = IMAGE_FILE) =>
  file.test(path) && !leadsToFolder(join(root, path));

const isFolder = (root: string, path: string, entry: Deno.DirEntry) =>
  entry.isDirectory || (entry.isSymlink && leadsToFolder(join(root, path)));

function leadsToFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // whoever reads it says what is wrong with it
  }
}

export const foldersIn = (root: string): string[] =>
  entriesOf(root).filter((entry) => isFolder(root, entry.name, entry)).map(({ name }) => name);

function entriesOf(path: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(path)];
  } catch (cause) {
    const why = cause instanceof Deno.errors.PermissionDenied
      ? `the folder ${path} can't be read: this user may not. Ask its owner for permission (chmod a+rX)`
      : cause instanceof Deno.errors.NotFound
      ? `there is no folder ${path}. Check data.data_path (--data-path)`
      : cause instanceof Deno.errors.NotADirectory
      ? `${path} is a file, and a folder with a folder for each class is needed. Check data.data_path (--data-path)`
      : `the folder ${path} can't be read (${messageOf(cause)})`;
    throw new UserError("data", `Images: ${why}.`, { cause });
  }
}

function noClasses(root: string): UserError {
  const images = entriesOf(root).filter(({ name }) => IMAGE_FILE.test(name));
  return new UserError(
    "data",
    images.length > 0
      ? `${root} has ${images.length} images (${
        images[0].name
      }, ...) but no folders in it: put the images of each ` +
        "class into a folder that has the class's name."
      : `${root} has no folders in it: a folder for each class is needed, with its images ` +
        `(${ENDINGS}) in it.`,
  );
}

function emptyClass(path: string, other: string): UserError {
  const found = other === "" ? "" : ` (there are other files, such as ${other})`;
  return new UserError(
    "data",
    `The class folder ${path} has no images in it: none of its files ends in ${ENDINGS}${found}. ` +
      "Put images there, or remove the folder.",
  );
}

/** Python sorts by code points, JavaScript by UTF-16 units. */
export function byCodePoint(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const x = a.charCodeAt(i), y = b.charCodeAt(i);
    if (x === y) continue;
    const isHalf = (code: number) => code >= 0xd800 && code <= 0xdfff;
    return isHalf(x) === isHalf(y) ? x - y : isHalf(x) ? 1 : -1;
  }
  return a.length - b.length;
}

function pack(root: string, folders: readonly Folder[]): Listing {
  const count = folders.reduce((sum, { names }) => sum + names.length, 0);
  const ends = new Uint32Array(new SharedArrayBuffer(4 * count));
  const starts = new Int32Array(folders.length), labels = new Int32Array(folders.length);
  const encoder = new TextEncoder();
  const parts = folders.map(({ names }) => encoder.encode(names.join("\0")));
  let total = 0, image = 0;
  folders.forEach(({ label, names }, folder) => {
    starts[folder] = image;
    labels[folder] = label;
    const part = parts[folder];
    for (let from = 0, i = 0; i < names.length; i++) {
      const end = part.indexOf(0, from);
      const to = end < 0 ? part.length : end;
      ends[image++] = total += to - from;
      from = to + 1;
    }
  });
  const names = new Uint8Array(new SharedArrayBuffer(total));
  let at = 0;
  for (const part of parts) {
    for (let from = 0; from < part.length;) {
      const end = part.indexOf(0, from);
      const name = part.subarray(from, end < 0 ? part.length : end);
      names.set(name, at);
      at += name.length;
      from += name.length + 1;
    }
  }
  return { root, folders: folders.map(({ path }) => path), starts, labels, names, ends };
}

/** An image's path, and what its header says. */
export type Sized = { readonly path: string } & Pick<Header, "width" | "height" | "deep">;

export function imageSizeOf(listing: Listing, index: number): Sized {
  return naming(
    imagePath(listing, index),
    (path) => ({ path, ...headerOf(readFile(path, openReusedBuffer())) }),
  );
}

/** A fault of the file becomes a fault of this path. */
export function naming<T>(path: string, use: (path: string) => T): T {
  try {
    return use(path);
  } catch (error) {
    if (error instanceof BadSample) throw new BadSample(path, error.reason, { cause: error });
    throw error;
  }
}

/** The file may have grown or shrunk since it was listed. */
export function readFile(path: string, buffer: ReusedBuffer): Uint8Array<ArrayBuffer> {
  let file: Deno.FsFile | null = null;
  try {
    file = Deno.openSync(path);
    const size = file.statSync().size;
    const bytes = buffer(size).subarray(0, size);
    let length = 0;
    for (let more: number | null = 1; more && length < size; length += more ?? 0) {
      more = file.readSync(bytes.subarray(length));
    }
    return bytes.subarray(0, length);
  } catch (cause) {
    const why = cause instanceof Deno.errors.PermissionDenied
      ? "can't be read: this user may not"
      : cause instanceof Deno.errors.NotFound
      ? "is no longer there"
      : `can't be read (${messageOf(cause)})`;
    throw new BadSample("", why, { cause });
  } finally {
    file?.close();
  }
}
