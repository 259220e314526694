import { messageOf } from "../../core/base/errors.ts";

export interface Elf {
  needed: string[];
  /** RPATH or RUNPATH, split, with $ORIGIN still in it. */
  searchPath: string[];
  /** Every exported symbol's name lies in the dynamic string table: [offset, size] in the file. */
  names: readonly [number, number];
}

const MACHINES: Record<number, string> = {
  3: "32-bit x86",
  21: "ppc64",
  22: "s390x",
  40: "32-bit ARM",
  62: "x86_64",
  183: "aarch64",
  243: "riscv64",
};
const ELF = 0x7f454c46;
const PT_LOAD = 1, PT_DYNAMIC = 2;
const DT_NEEDED = 1, DT_STRTAB = 5, DT_STRSZ = 10, DT_RPATH = 15, DT_RUNPATH = 29;

interface Segment {
  type: number;
  offset: number;
  address: number;
  size: number;
}

/** The machines that hpctrain runs on, as `uname -m` names them. */
export const ARCHITECTURES = ["x86_64", "aarch64"] as const;
/** The machine that an ELF file is built for; null where the file is none. */
export function architectureOf(path: string): string | null {
  try {
    if (!Deno.statSync(path).isFile) return null; // a named pipe would wait
    using file = Deno.openSync(path);
    const head = readAt(file, 0, 20);
    const machine = head.getUint16(18, true);
    return head.getUint32(0) === ELF ? MACHINES[machine] ?? `machine number ${machine}` : null;
  } catch {
    return null;
  }
}

/** A sentence where the file can't be loaded, on this machine or one of this architecture. */
export function readElf(path: string, architecture: string = Deno.build.arch): Elf | string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  try {
    // Opening a named pipe would wait for its writer.
    if (!Deno.statSync(path).isFile) return `${name} is not a file`;
    using file = Deno.openSync(path);
    return parse(file, name, architecture);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return `${name} is missing`;
    if (error instanceof Deno.errors.PermissionDenied) return `${name} can't be read: permission denied`;
    if (error instanceof RangeError) return `${name} is damaged: its tables point outside the file`;
    return `${name} can't be read: ${messageOf(error)}`;
  }
}

function parse(file: Deno.FsFile, name: string, architecture: string): Elf | string {
  const size = file.statSync().size;
  const head = readAt(file, 0, Math.min(size, 4096));
  if (head.byteLength < 64 || head.getUint32(0) !== ELF) return `${name} is not a shared library`;
  const machine = head.getUint16(18, true);
  if (head.getUint8(4) !== 2 || head.getUint8(5) !== 1 || MACHINES[machine] !== architecture) {
    const theirs = MACHINES[machine] ?? `machine number ${machine}`;
    const matches = architecture === Deno.build.arch
      ? `this machine is ${architecture}`
      : `not for ${architecture}`;
    return `${name} is built for ${theirs}, ${matches}`;
  }
  const segments = readSegments(file, head);
  const tableEnd = Number(head.getBigUint64(40, true)) + head.getUint16(58, true) * head.getUint16(60, true);
  const expected = segments.reduce((end, s) => Math.max(end, s.offset + s.size), tableEnd);
  if (size < expected) {
    return `${name} is cut short: ${size} bytes of ${expected}, as after an interrupted download or a full disk`;
  }
  return readDynamic(file, segments, name);
}

function readSegments(file: Deno.FsFile, head: DataView): Segment[] {
  const start = Number(head.getBigUint64(32, true));
  const entry = head.getUint16(54, true), count = head.getUint16(56, true);
  const table = readAt(file, start, entry * count);
  return Array.from({ length: count }, (_, i) => ({
    type: table.getUint32(i * entry, true),
    offset: Number(table.getBigUint64(i * entry + 8, true)),
    address: Number(table.getBigUint64(i * entry + 16, true)),
    size: Number(table.getBigUint64(i * entry + 32, true)),
  })).filter((s) => s.type === PT_LOAD || s.type === PT_DYNAMIC);
}

function readDynamic(file: Deno.FsFile, segments: Segment[], name: string): Elf | string {
  const dynamic = segments.find((s) => s.type === PT_DYNAMIC);
  if (!dynamic) return `${name} is not a shared library`;
  const table = readAt(file, dynamic.offset, dynamic.size);
  const entries: [tag: number, value: number][] = [];
  for (let at = 0; at + 16 <= table.byteLength; at += 16) {
    entries.push([Number(table.getBigUint64(at, true)), Number(table.getBigUint64(at + 8, true))]);
  }
  const value = (tag: number) => entries.find(([t]) => t === tag)?.[1];
  const address = value(DT_STRTAB) ?? 0;
  const home = segments.find((s) =>
    s.type === PT_LOAD && s.address <= address && address < s.address + s.size
  );
  if (!home) throw new RangeError();
  const strings = address - home.address + home.offset;
  const stringBytes = value(DT_STRSZ) ?? 0;
  if (strings + stringBytes > file.statSync().size) throw new RangeError();
  const text = (offset: number) => readString(file, strings + offset);
  const path = value(DT_RUNPATH) ?? value(DT_RPATH);
  return {
    needed: entries.filter(([tag]) => tag === DT_NEEDED).map(([, offset]) => text(offset)),
    searchPath: path === undefined ? [] : text(path).split(":").filter(Boolean),
    names: [strings, stringBytes],
  };
}

function readString(file: Deno.FsFile, offset: number): string {
  for (let length = 1024;; length *= 4) {
    const view = readAt(file, offset, length, true);
    const bytes = new Uint8Array(view.buffer, 0, view.byteLength);
    const end = bytes.indexOf(0);
    if (end >= 0) return new TextDecoder().decode(bytes.subarray(0, end));
    if (bytes.length < length || length > 1 << 16) throw new RangeError();
  }
}

export function namesSymbols(path: string, elf: Elf, symbols: string[]): boolean[] {
  using file = Deno.openSync(path);
  const view = readAt(file, elf.names[0], elf.names[1]);
  const names = new TextDecoder("latin1").decode(new Uint8Array(view.buffer, 0, view.byteLength));
  return symbols.map((symbol) => names.includes(`\0${symbol}\0`));
}

function readAt(file: Deno.FsFile, offset: number, length: number, short = false): DataView {
  // A damaged table may give any amount.
  if (length > file.statSync().size && !short) throw new RangeError();
  const bytes = new Uint8Array(length);
  file.seekSync(offset, Deno.SeekMode.Start);
  let filled = 0;
  while (filled < length) {
    const n = file.readSync(bytes.subarray(filled));
    if (n === null) break;
    filled += n;
  }
  if (filled < length && !short) throw new RangeError();
  return new DataView(bytes.buffer, 0, filled);
}

/** The path of a loaded library whose name begins so, and has nothing of `but` in it; else the name. */
export function libraryNamed(name: string, but?: string): string {
  for (const line of Deno.readTextFileSync("/proc/self/maps").split("\n")) {
    const path = line.slice(line.indexOf("/"));
    if (path.includes(`/${name}`) && !(but && path.includes(but))) return path.trim();
  }
  return name;
}

export function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The paths of the libraries in the loader's cache whose lines match. */
export function systemLibraries(lines: RegExp, env: Record<string, string>): string[] {
  for (const program of ["ldconfig", "/sbin/ldconfig"]) {
    try {
      const { success, stdout } = new Deno.Command(program, {
        args: ["-p"],
        stderr: "null",
        env,
        clearEnv: true,
      }).outputSync();
      if (!success) continue;
      return new TextDecoder().decode(stdout).split("\n")
        .filter((line) => lines.test(line))
        .map((line) => line.slice(line.indexOf("=>") + 3).trim())
        .filter((path) => path.startsWith("/"));
    } catch { /* not there: the next one */ }
  }
  return [];
}
