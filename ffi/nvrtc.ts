// The compiler of CUDA C, NVRTC or HIPRTC: a library that comes with libtorch's half for GPUs and runs without a GPU. Texts to
// machine code, on several threads at once.
import { startThread } from "../core/base/threads.ts";
import { dirname, join } from "../deps/path.ts";
import { LibraryError } from "./errors.ts";
import { BACKENDS, type GpuBackend, type GpuKind, namedBy } from "./gpu/backends.ts";
import { libraryNamed } from "./libraries/elf.ts";

const symbols = {
  version: { name: "nvrtcVersion", parameters: ["buffer", "buffer"], result: "i32" },
  create: {
    name: "nvrtcCreateProgram",
    parameters: ["buffer", "buffer", "buffer", "i32", "pointer", "pointer"],
    result: "i32",
  },
  destroy: { name: "nvrtcDestroyProgram", parameters: ["buffer"], result: "i32" },
  codeSize: { name: "nvrtcGetCUBINSize", parameters: ["u64", "buffer"], result: "i32" },
  code: { name: "nvrtcGetCUBIN", parameters: ["u64", "buffer"], result: "i32" },
  logSize: { name: "nvrtcGetProgramLogSize", parameters: ["u64", "buffer"], result: "i32" },
  log: { name: "nvrtcGetProgramLog", parameters: ["u64", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const compileSymbol = {
  compile: { name: "nvrtcCompileProgram", parameters: ["u64", "i32", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

export interface Nvrtc {
  readonly path: string;
  /** "13.2" */
  readonly version: string;
  /** Machine code of each text for GPUs of this architecture ("sm_90", "gfx942"). Throws with the compiler's own words. */
  compile(texts: readonly string[], architecture: string): Uint8Array<ArrayBuffer>[];
}

/** Programs that several threads compile, each the next one that nobody has begun. */
export interface NvrtcWork {
  readonly path: string;
  readonly kind: GpuKind;
  readonly programs: readonly bigint[];
  readonly options: readonly string[];
  /** The next program, how many are done, and what the compiler answered for each. */
  readonly shared: SharedArrayBuffer;
}
const NEXT = 0, DONE = 1, ANSWERS = 2;

/** Takes part until none is left to begin. */
export function compileSome({ path, kind, programs, options, shared }: NvrtcWork): void {
  const { compile } = Deno.dlopen(path, namedBy(BACKENDS[kind], compileSymbol)).symbols;
  const words = new Int32Array(shared), texts = options.map(bytesOf);
  const list = new Uint8Array(BigUint64Array.from(texts, (text) => addressOf(text)).buffer);
  for (let i; (i = Atomics.add(words, NEXT, 1)) < programs.length;) {
    Atomics.store(words, ANSWERS + i, compile(programs[i], texts.length, list));
    Atomics.add(words, DONE, 1);
    Atomics.notify(words, DONE);
  }
}

/** The compiler's answer for each program. This thread works, too, so that one that does not start delays nothing. */
function compileAll(work: Omit<NvrtcWork, "shared">): Int32Array {
  const count = work.programs.length;
  const all = { ...work, shared: new SharedArrayBuffer(4 * (ANSWERS + count)) };
  const words = new Int32Array(all.shared);
  const others = Array.from(
    { length: count - 1 },
    (_, i) => startThread(new URL("./nvrtc_thread.ts", import.meta.url), `compiler ${i}`, all),
  );
  compileSome(all);
  for (let done; (done = Atomics.load(words, DONE)) < count;) Atomics.wait(words, DONE, done);
  for (const thread of others) thread.end();
  return words.subarray(ANSWERS);
}

const bytesOf = (text: string) => new TextEncoder().encode(`${text}\0`);

/** libtorch opens its compiler by this library, which knows where it lies, and not before it needs one. */
const OPENER = "libcaffe2_nvrtc.so";
/** A part of the compiler, which may be in memory before it. */
const ITS_PART = "-builtins";

function pathOfCompiler({ compiler, torch }: GpuBackend): string {
  const loaded = () => libraryNamed(compiler, ITS_PART);
  if (loaded() !== compiler) return loaded();
  try {
    Deno.dlopen(join(dirname(libraryNamed(torch)), OPENER), {});
  } catch {
    return compiler; // the loader may know it by its name
  }
  return loaded();
}

/** The compiler of a path, else the one that HPCTRAIN_NVRTC names or libtorch's own; null where there is none. */
export function openNvrtc(
  backend = BACKENDS.cuda,
  path = Deno.env.get("HPCTRAIN_NVRTC") || pathOfCompiler(backend),
): Nvrtc | null {
  const { compilerOptions, words: { compiler } } = backend;
  let nvrtc: Deno.DynamicLibrary<typeof symbols>["symbols"];
  try {
    nvrtc = Deno.dlopen(path, namedBy(backend, symbols)).symbols;
  } catch {
    return null;
  }
  const number = new BigUint64Array(new ArrayBuffer(8)), out = new Uint8Array(number.buffer);
  const major = new Int32Array(1), minor = new Int32Array(1);
  nvrtc.version(new Uint8Array(major.buffer), new Uint8Array(minor.buffer));
  const ok = (code: number, what: string) => {
    if (code !== 0) throw new LibraryError(`${compiler} could not ${what}: error ${code}.`);
  };
  const read = (program: bigint, size: typeof nvrtc.codeSize, content: typeof nvrtc.code) => {
    ok(size(program, out), "tell how long its result is");
    const bytes = new Uint8Array(new ArrayBuffer(Number(number[0])));
    if (bytes.length > 0) ok(content(program, bytes), "give its result");
    return bytes;
  };
  return {
    path: path.includes("/") ? path : libraryNamed(backend.compiler, ITS_PART),
    version: `${major[0]}.${minor[0]}`,
    compile(texts, architecture) {
      const programs: bigint[] = [];
      try {
        for (const text of texts) {
          ok(nvrtc.create(out, bytesOf(text), bytesOf("groups.cu"), 0, null, null), "take a text");
          programs.push(number[0]);
        }
        const { kind } = backend, options = compilerOptions(architecture);
        const answers = compileAll({ path, kind, programs, options });
        return programs.map((program, i) => {
          if (answers[i] === 0) return read(program, nvrtc.codeSize, nvrtc.code);
          const log = new TextDecoder().decode(read(program, nvrtc.logSize, nvrtc.log));
          const message = log.replace(/\0$/, "").trim().slice(0, 1000);
          throw new LibraryError(`${compiler} could not compile CUDA C${message && `: ${message}`}`);
        });
      } finally {
        for (const program of programs) {
          number[0] = program;
          nvrtc.destroy(out);
        }
      }
    },
  };
}

const addressOf = (bytes: Uint8Array<ArrayBuffer>): bigint =>
  Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
