// Copies libtorch's libraries under HIP's names: files, and the functions of CUDA's runtime that they import. So there is a
// libtorch_hip.so to test with. It is an imitation: the code in it is NVIDIA's half of libtorch. A name takes the place of a
// longer one in the table of names, so nothing moves; kernels, which the stand-in doesn't run, are left out of the copy.
import { BACKENDS } from "../../ffi/gpu/backends.ts";

/** A library that libtorch opens by name, with functions that it asks for under CUDA's names. */
const OPENED = "libcuda.so.1", OPENED_IN_HIP = "libhipcu.so";

/** By the beginning of a file's name before ".so". Each name has room in the place of the one before it. */
const FILES: Readonly<Record<string, string>> = {
  libtorch_cuda: "libtorch_hip.so",
  libc10_cuda: "libc10_hip.so",
  libcudart: "libamdhip64.so",
  libnccl: "librccl.so.1",
  libnvrtc: "libhiprtc.so",
  libcublas: "libhipblas.so",
  libcublasLt: "libhipblaslt.so",
  libcudnn: "libMIOpen.so",
  libcufft: "libhipfft.so",
  libcusparse: "libhipsparse.so",
  libcusparseLt: "libhipsparselt.so",
  libcupti: "libroctx64.so",
  libcufile: "libhipfile.so",
  "libnvidia-ml": "librocm_smi64.so.1",
  libcuda: OPENED_IN_HIP, // it has no counterpart: in HIP the runtime is the driver
};

export const fileInHip = (soname: string): string => FILES[soname.split(".so")[0]] ?? soname;

/** A function of CUDA's runtime, also of the compiler's calls (__cudaRegisterFunction). */
export const symbolInHip = (symbol: string): string =>
  /^(__)?cuda[A-Z]/.test(symbol)
    ? symbol.replace(/^__cuda/, "__hip").replace(/^cuda.*/, BACKENDS.hip.symbol)
    : symbol;

/** Of any library, as the program asks for it. */
export const symbolOfProgram = (symbol: string): string =>
  /^(cu|nvrtc)[A-Z]/.test(symbol) ? BACKENDS.hip.symbol(symbol) : symbolInHip(symbol);

const DYNAMIC = 6, DYNSYM = 11, VERNEED = 0x6ffffffe;
const LOAD = 1;
const NAMES_OF_FILES: ReadonlySet<number> = new Set([1, 14]); // DT_NEEDED, DT_SONAME
/** Machine code of GPUs: two thirds of a file. */
const KERNELS = ".nv_fatbin", CONSTANTS = /^\.l?rodata$/;

interface Section {
  readonly name: string;
  readonly type: number;
  readonly offset: number;
  readonly size: number;
  readonly link: number;
}

interface Part {
  readonly offset: number;
  readonly size: number;
}

export function copyRenamed(from: string, to: string): void {
  using file = Deno.openSync(from);
  const size = file.statSync().size;
  const head = new DataView(read(file, { offset: 0, size: 64 }).buffer);
  const table: Part = { offset: Number(head.getBigUint64(40, true)), size: 64 * head.getUint16(60, true) };
  const sections = sectionsOf(file, table, head.getUint16(62, true));
  const { changed, parts } = renamed(file, sections);
  using copy = Deno.openSync(to, { write: true, createNew: true, mode: 0o755 });
  copy.truncateSync(size);
  const hole = sections.find(({ name }) => name === KERNELS);
  for (const part of [...loaded(file, head), table, sections[head.getUint16(62, true)]]) {
    for (const piece of without(part, hole)) copyPart(file, copy, piece);
  }
  for (const [i, part] of parts.entries()) write(copy, part.offset, changed[i]);
  for (const part of sections.filter(({ name }) => CONSTANTS.test(name))) renameOpened(file, copy, part);
}

function renameOpened(file: Deno.FsFile, copy: Deno.FsFile, part: Part): void {
  const text = new TextDecoder("latin1").decode(read(file, part));
  const after = new TextEncoder().encode(OPENED_IN_HIP.padEnd(OPENED.length, "\0"));
  for (let at = -1; (at = text.indexOf(`${OPENED}\0`, at + 1)) >= 0;) {
    write(copy, part.offset + at, after);
  }
}

/** The tables of names and of versions, with the new names in them. */
function renamed(file: Deno.FsFile, sections: readonly Section[]): { changed: Uint8Array[]; parts: Part[] } {
  const of = (type: number) => sections.find((section) => section.type === type);
  const symbols = of(DYNSYM)!, names = sections[symbols.link], versions = of(VERNEED);
  const text = read(file, names), places = new Map<number, string>();
  const decoder = new TextDecoder();
  const nameAt = (at: number) => decoder.decode(text.subarray(at, text.indexOf(0, at)));
  const use = (at: number, name: (now: string) => string) => places.set(at, name(nameAt(at)));
  const table = new DataView(read(file, symbols).buffer);
  for (let at = 0; at < table.byteLength; at += 24) {
    const imported = table.getUint16(at + 6, true) === 0;
    use(table.getUint32(at, true), imported ? symbolInHip : (name) => name);
  }
  const dynamic = new DataView(read(file, of(DYNAMIC)!).buffer);
  for (let at = 0; at < dynamic.byteLength; at += 16) {
    if (!NAMES_OF_FILES.has(Number(dynamic.getBigInt64(at, true)))) continue;
    use(Number(dynamic.getBigUint64(at + 8, true)), fileInHip);
  }
  const needed = versions && new DataView(read(file, versions).buffer);
  if (needed) renameVersions(needed, use, nameAt);
  put(text, places);
  const tables = [new Uint8Array(text), ...(needed ? [new Uint8Array(needed.buffer)] : [])];
  return { changed: tables, parts: [names, ...(versions ? [versions] : [])] };
}

/** Each library's record is followed by those of its versions, whose hashes the loader compares. */
function renameVersions(
  table: DataView,
  use: (at: number, name: (now: string) => string) => void,
  nameAt: (at: number) => string,
): void {
  for (let at = 0, more = 1; more !== 0; at += more) {
    use(table.getUint32(at + 4, true), fileInHip);
    for (let one = at + table.getUint32(at + 8, true), next = 1; next !== 0; one += next) {
      const name = table.getUint32(one + 8, true);
      use(name, fileInHip);
      table.setUint32(one, hashOf(fileInHip(nameAt(name))), true);
      next = table.getUint32(one + 12, true);
    }
    more = table.getUint32(at + 12, true);
  }
}

/** A name may be the end of another: what is there afterwards must be right for both. */
function put(text: Uint8Array, places: ReadonlyMap<number, string>): void {
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  const nameAt = (at: number) => decoder.decode(text.subarray(at, text.indexOf(0, at)));
  const before = new Map([...places.keys()].map((at) => [at, nameAt(at)]));
  for (const [at, after] of places) {
    const now = before.get(at)!;
    if (now === after) continue;
    const bytes = encoder.encode(after);
    if (bytes.length > now.length) throw new Error(`${after} has no room in the place of ${now}`);
    text.fill(0, at, at + now.length).set(bytes, at);
  }
  for (const [at, after] of places) {
    if (nameAt(at) !== after) throw new Error(`${before.get(at)} shares its place with another name`);
  }
}

/** Of System V's symbol tables. */
function hashOf(name: string): number {
  let hash = 0;
  for (const byte of new TextEncoder().encode(name)) {
    hash = ((hash << 4) + byte) >>> 0;
    hash = (hash ^ ((hash & 0xf0000000) >>> 24)) & 0x0fffffff;
  }
  return hash;
}

function sectionsOf(file: Deno.FsFile, table: Part, namesAt: number): Section[] {
  const view = new DataView(read(file, table).buffer);
  const all = Array.from({ length: table.size / 64 }, (_, i) => ({
    name: view.getUint32(64 * i, true),
    type: view.getUint32(64 * i + 4, true),
    offset: Number(view.getBigUint64(64 * i + 24, true)),
    size: Number(view.getBigUint64(64 * i + 32, true)),
    link: view.getUint32(64 * i + 40, true),
  }));
  const names = read(file, all[namesAt]);
  return all.map((one) => ({
    ...one,
    name: new TextDecoder().decode(names.subarray(one.name, names.indexOf(0, one.name))),
  }));
}

function loaded(file: Deno.FsFile, head: DataView): Part[] {
  const offset = Number(head.getBigUint64(32, true)), count = head.getUint16(56, true);
  const view = new DataView(read(file, { offset, size: 56 * count }).buffer);
  const segments = Array.from({ length: count }, (_, i) => ({
    type: view.getUint32(56 * i, true),
    offset: Number(view.getBigUint64(56 * i + 8, true)),
    size: Number(view.getBigUint64(56 * i + 32, true)),
  }));
  return [
    { offset: 0, size: 64 },
    { offset, size: 56 * count },
    ...segments.filter(({ type }) => type === LOAD),
  ];
}

function without({ offset, size }: Part, hole: Part | undefined): Part[] {
  const end = offset + size;
  if (hole === undefined || hole.offset >= end || hole.offset + hole.size <= offset) {
    return [{ offset, size }];
  }
  const after = hole.offset + hole.size;
  return [{ offset, size: hole.offset - offset }, { offset: after, size: end - after }]
    .filter((part) => part.size > 0);
}

const PIECE = 16 << 20;

function copyPart(from: Deno.FsFile, to: Deno.FsFile, { offset, size }: Part): void {
  for (let at = offset; at < offset + size; at += PIECE) {
    write(to, at, read(from, { offset: at, size: Math.min(PIECE, offset + size - at) }));
  }
}

function read(file: Deno.FsFile, { offset, size }: Part): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  file.seekSync(offset, Deno.SeekMode.Start);
  for (let filled = 0; filled < size;) {
    const count = file.readSync(bytes.subarray(filled));
    if (count === null) throw new Error("a file ends before its tables say so");
    filled += count;
  }
  return bytes;
}

function write(file: Deno.FsFile, offset: number, bytes: Uint8Array): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  for (let written = 0; written < bytes.length;) written += file.writeSync(bytes.subarray(written));
}
