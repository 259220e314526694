// Small but well-formed ELF libraries, so that a test can make each way in which a libtorch is unusable.

import { join } from "paths";

export interface FakeElf {
  needed?: string[];
  rpath?: string;
  machine?: number;
  symbols?: string[];
}

const HERE = Deno.build.arch === "x86_64" ? 62 : 183;

/** One loadable segment, a dynamic section, its strings and a section table, as a linker would lay them out. */
export function fakeElf({ needed = [], rpath, machine = HERE, symbols = [] }: FakeElf = {}): Uint8Array {
  const strings = ["", ...needed, ...(rpath ? [rpath] : []), ...symbols].map((s) => s + "\0").join("");
  const at = (text: string) => strings.indexOf(`\0${text}\0`) + 1;
  const base = 0x10000, dynamicAt = 64 + 2 * 56;
  const entries: [number, number][] = [
    ...needed.map((name): [number, number] => [1, at(name)]),
    ...(rpath ? [[15, at(rpath)] as [number, number]] : []),
    [10, strings.length],
  ];
  const stringsAt = dynamicAt + 16 * (entries.length + 2);
  entries.push([5, base + stringsAt], [0, 0]);
  const sectionsAt = stringsAt + strings.length, size = sectionsAt + 64;
  const bytes = new Uint8Array(size), view = new DataView(bytes.buffer);
  bytes.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  view.setUint16(16, 3, true);
  view.setUint16(18, machine, true);
  view.setBigUint64(32, 64n, true);
  view.setBigUint64(40, BigInt(sectionsAt), true);
  [64, 56, 2, 64, 1].forEach((value, i) => view.setUint16(52 + 2 * i, value, true));
  const segment = (i: number, type: number, offset: number, length: number) => {
    view.setUint32(64 + 56 * i, type, true);
    [offset, base + offset, base + offset, length].forEach((value, j) =>
      view.setBigUint64(64 + 56 * i + 8 + 8 * j, BigInt(value), true)
    );
  };
  segment(0, 1, 0, size);
  segment(1, 2, dynamicAt, 16 * entries.length);
  entries.forEach(([tag, value], i) => {
    view.setBigUint64(dynamicAt + 16 * i, BigInt(tag), true);
    view.setBigUint64(dynamicAt + 16 * i + 8, BigInt(value), true);
  });
  bytes.set(new TextEncoder().encode(strings), stringsAt);
  return bytes;
}

/** A torch package as a wheel unpacks it; returns its lib folder. */
export function fakeTorch(parent: string, version = "2.12.1+cpu", cpu: FakeElf = {}): string {
  const lib = join(parent, "torch", "lib");
  Deno.mkdirSync(lib, { recursive: true });
  Deno.writeFileSync(join(lib, "libtorch_cpu.so"), fakeElf({ needed: ["libc10.so", "libc.so.6"], ...cpu }));
  Deno.writeFileSync(join(lib, "libc10.so"), fakeElf({ needed: ["libc.so.6"] }));
  Deno.writeTextFileSync(join(parent, "torch", "version.py"), `__version__ = '${version}'\ndebug = False\n`);
  return lib;
}

/** Runs a body with a temporary folder of its own. */
export async function inTemp(body: (folder: string) => void | Promise<void>): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
