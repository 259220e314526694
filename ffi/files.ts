// Bytes of a file at a position, in one call and from any thread. Needs no libtorch. Imports nothing.
// pread and not mmap: a file that becomes shorter gives fewer bytes and so a sentence, where a mapped page that is no
// longer there ends the process.

const SYMBOLS = {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "i64" },
  close: { parameters: ["i32"], result: "i32" },
  __errno_location: { parameters: [], result: "pointer" },
} as const;

const O_RDONLY_CLOEXEC = 0o2000000, EINTR = 4;

let libc: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"] | undefined;
const native = () => libc ??= Deno.dlopen("libc.so.6", SYMBOLS).symbols;

/** A descriptor, or minus the system's error number. */
export function openForReading(path: string): number {
  const descriptor = native().open(new TextEncoder().encode(`${path}\0`), O_RDONLY_CLOEXEC);
  return descriptor >= 0 ? descriptor : -errno();
}

/** Fills `into` from `offset` on. How many bytes there were, fewer only at the end of the file; or minus the error number. */
export function pread(descriptor: number, into: Uint8Array, offset: number): number {
  const bytes = into as Uint8Array<ArrayBuffer>;
  let done = 0;
  while (done < bytes.length) {
    const rest = done === 0 ? bytes : bytes.subarray(done);
    const count = Number(native().pread(descriptor, rest, BigInt(rest.length), BigInt(offset + done)));
    if (count > 0) done += count;
    else if (count === 0) break;
    else {
      const error = errno();
      if (error !== EINTR) return -error;
    }
  }
  return done;
}

export function closeFile(descriptor: number): void {
  native().close(descriptor);
}

const errno = (): number => new Deno.UnsafePointerView(native().__errno_location()!).getInt32();
