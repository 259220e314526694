// Functions of CUDA C that the program writes itself: compiled by NVRTC or HIPRTC, kept in the cache, launched by the driver on
// libtorch's current stream. What a launch reads and writes are slots of a table, as with machine_code.ts.
import { createHash } from "node:crypto";
import { cpuCount } from "../core/base/topology.ts";
import { join } from "../deps/path.ts";
import { check, native, outAt, outI64 } from "./abi.ts";
import { currentStream, gpuArchitecture, gpuBackend } from "./cuda.ts";
import { LibraryError, NativeError } from "./errors.ts";
import { namedBy } from "./gpu/backends.ts";
import { libraryNamed } from "./libraries/elf.ts";
import { cacheFolder } from "./libraries/find.ts";
import { type Nvrtc, openNvrtc } from "./nvrtc.ts";
import { alive, type Tensor } from "./tensor.ts";

const driverCalls = {
  load: { name: "cuModuleLoadData", parameters: ["buffer", "buffer"], result: "i32" },
  function: { name: "cuModuleGetFunction", parameters: ["buffer", "u64", "buffer"], result: "i32" },
  launch: {
    name: "cuLaunchKernel",
    parameters: ["u64", "u32", "u32", "u32", "u32", "u32", "u32", "u32", "u64", "buffer", "u64"],
    result: "i32",
  },
  unload: { name: "cuModuleUnload", parameters: ["u64"], result: "i32" },
  errorText: { name: "cuGetErrorString", parameters: ["i32", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** One launch of a function; core/compile/cuda/print.ts has it as Launch. */
export interface KernelLaunch {
  readonly function: string;
  readonly blocks: number;
  readonly threads: number;
  /** Each is an address: a slot's, and so many bytes on. */
  readonly arguments: readonly { readonly slot: number; readonly bytes: number }[];
}

interface CudaKernels {
  /** The slot's memory is the tensor's, from this byte on. */
  setSlot(slot: number, tensor: Tensor, byteOffset?: number): void;
  launch(launch: KernelLaunch): void;
  /** Bytes of machine code. */
  readonly bytes: number;
  free(): void;
}

interface KernelText {
  /** CUDA C that each function needs before it. */
  readonly prelude: string;
  readonly functions: readonly { readonly name: string; readonly text: string }[];
}

/** Why there are none: nobody compiles the text. */
export interface NoKernels {
  readonly refused: "compiler";
  readonly why: string;
}

/** More than any group has. */
const MOST_ARGUMENTS = 64;

type Driver = Deno.DynamicLibrary<typeof driverCalls>["symbols"];
let driver: Driver | undefined;
let nvrtc: Nvrtc | null | undefined;

/** The modules that have the functions, in turn. */
interface Loaded {
  readonly modules: readonly bigint[];
  readonly bytes: number;
}

/** The functions of a text, for the current GPU. */
export function loadKernels(text: KernelText, slots: number): CudaKernels | NoKernels {
  const backend = gpuBackend();
  const cu = driver ??= Deno.dlopen(libraryNamed(backend.driver), namedBy(backend, driverCalls)).symbols;
  const loaded = loadedFrom(cu, text);
  if (typeof loaded === "string") return { refused: "compiler", why: loaded };
  const { modules, bytes } = loaded;
  const handle = new BigUint64Array(new ArrayBuffer(8)), out = new Uint8Array(handle.buffer);
  const ok = (answer: number, what: string) => {
    if (answer === 0) return;
    throw new NativeError(
      "CUDA kernel",
      what,
      `${backend.words.runtime} driver error: ${sentenceOf(cu, answer)}`,
    );
  };
  const functions = new Map(text.functions.map(({ name }, i) => {
    ok(cu.function(out, modules[i % modules.length], new TextEncoder().encode(`${name}\0`)), name);
    return [name, handle[0]];
  }));
  const table = new BigUint64Array(slots);
  const values = new BigUint64Array(new ArrayBuffer(8 * MOST_ARGUMENTS));
  const first = Deno.UnsafePointer.value(Deno.UnsafePointer.of(values));
  const places = new BigUint64Array(new ArrayBuffer(8 * MOST_ARGUMENTS));
  places.forEach((_, i) => places[i] = first + BigInt(8 * i));
  const given = new Uint8Array(places.buffer);
  return {
    bytes,
    setSlot(slot, tensor, byteOffset = 0) {
      if (slot < 0 || slot >= slots) throw new Error(`internal: kernels have no slot ${slot}.`);
      check(native.dataPointer(alive(tensor, "setSlot"), outAt), "setSlot");
      table[slot] = BigInt.asUintN(64, outI64[0]) + BigInt(byteOffset);
    },
    launch({ function: name, blocks, threads, arguments: list }) {
      if (list.length > MOST_ARGUMENTS) throw new Error(`internal: ${list.length} arguments of a kernel.`);
      // The driver reads them before it returns.
      for (let i = 0; i < list.length; i++) values[i] = table[list[i].slot] + BigInt(list[i].bytes);
      ok(
        cu.launch(functions.get(name)!, blocks, 1, 1, threads, 1, 1, 0, currentStream(), given, 0n),
        name,
      );
    },
    free() {
      for (const module of modules) cu.unload(module);
    },
  };
}

/** By NVRTC; or why not. */
function loadedFrom(cu: Driver, text: KernelText): Loaded | string {
  const backend = gpuBackend(), { compiler } = backend.words;
  nvrtc ??= openNvrtc(backend);
  if (nvrtc === null) {
    return `there is no ${compiler} beside libtorch, which compiles CUDA C (HPCTRAIN_NVRTC names one elsewhere)`;
  }
  try {
    const codes = compiled(nvrtc, partsOf(text), gpuArchitecture());
    const bytes = codes.reduce((all, { length }) => all + length, 0);
    return { modules: codes.map((code) => loadedCode(cu, code)), bytes };
  } catch (error) {
    if (!(error instanceof LibraryError)) throw error;
    return error.message;
  }
}

/** More threads than that wait for each other in NVRTC. */
const MOST_PARTS = 8;

/** A text for each thread that compiles: the functions in turn, so that long ones, which follow each other, are shared. */
function partsOf({ prelude, functions }: KernelText): string[] {
  const count = Math.max(1, Math.min(MOST_PARTS, cpuCount(), functions.length));
  return Array.from(
    { length: count },
    (_, part) =>
      [prelude, ...functions.filter((_, i) => i % count === part).map(({ text }) => text)].join("\n"),
  );
}

function loadedCode(cu: Driver, code: Uint8Array<ArrayBuffer>): bigint {
  const handle = new BigUint64Array(new ArrayBuffer(8));
  const answer = cu.load(new Uint8Array(handle.buffer), code);
  if (answer !== 0) {
    throw new LibraryError(`the driver could not load machine code: ${sentenceOf(cu, answer)}`);
  }
  return handle[0];
}

/** The driver's words for an error. */
function sentenceOf(cu: Driver, answer: number): string {
  const text = new BigUint64Array(new ArrayBuffer(8));
  const known = cu.errorText(answer, new Uint8Array(text.buffer)) === 0 && text[0] !== 0n;
  return known
    ? new Deno.UnsafePointerView(Deno.UnsafePointer.create(text[0])!).getCString()
    : `error ${answer}`;
}

/** Machine code of each text: from the cache what was compiled for such a GPU before. */
function compiled(
  { version, compile }: Nvrtc,
  texts: readonly string[],
  architecture: string,
): Uint8Array<ArrayBuffer>[] {
  const folder = join(cacheFolder(Deno.env.toObject()), "kernels");
  const paths = texts.map((text) => {
    const content = createHash("sha256").update(`${architecture} ${version}\n`).update(text).digest("hex");
    return join(folder, `${content}.cubin`);
  });
  const codes = paths.map(codeIn), missing = texts.filter((_, i) => codes[i] === null);
  const made = missing.length > 0 ? compile(missing, architecture) : [];
  return codes.map((known, i) => {
    if (known !== null) return known;
    const code = made.shift()!;
    keepCode(folder, paths[i], code);
    return code;
  });
}

/** Null where it is not compiled yet, or the cache can't be read. */
function codeIn(path: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Deno.readFileSync(path);
  } catch {
    return null;
  }
}

function keepCode(folder: string, path: string, code: Uint8Array<ArrayBuffer>): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
    const partial = `${path}.${crypto.randomUUID().slice(0, 8)}`;
    Deno.writeFileSync(partial, code);
    Deno.renameSync(partial, path);
  } catch {
    // A run does without a cache.
  }
}
