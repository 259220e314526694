import type { GpuWords } from "./gpu/backends.ts";

export class NativeError extends Error {
  readonly op: string;
  readonly native: string;
  constructor(op: string, operands: string, native: string) {
    super(operands ? `${op}(${operands}): ${native}` : `${op}: ${native}`);
    this.name = "NativeError";
    this.op = op;
    this.native = native;
  }
  /** The GPU or its driver failed: this process can compute nothing there any more. */
  get ofDevice(): boolean {
    return !this.outOfMemory &&
      /(CUDA|HIP) (driver )?error|(CU|HIP|ROC)BLAS_STATUS_|CUDNN_STATUS_|cuDNN error|miopenStatus|(CU|HIP)FFT_|(cuda|hip)Error/
        .test(this.native);
  }
  get outOfMemory(): boolean {
    return /out of memory|can't allocate memory|bad_alloc|DefaultCPUAllocator/i.test(this.native);
  }
}

/** Says what to do about a failure of a GPU, by the runtime's own words for it; null where they say too little. */
export function deviceHelp(
  message: string,
  { tool, choose }: Pick<GpuWords, "tool" | "choose">,
): string | null {
  if (/busy or unavailable/.test(message)) {
    return `Another process has this GPU for itself (exclusive compute mode, which ${tool} shows as E. Process): ` +
      `take another with ${choose}, or ask the scheduler for one.`;
  }
  if (/out of memory/.test(message)) {
    return `Other processes hold this GPU's memory: ${tool} names them. Take another with ${choose}, or another node.`;
  }
  if (!/ECC/.test(message)) return null;
  return "This GPU's memory is faulty and stays so until it is reset: tell the site, and take another node (--exclude).";
}

/** A tensor was used after its scope ended or after free(). It is always a bug in the calling code. */
export class UseAfterFree extends Error {
  constructor(op: string) {
    super(
      `internal: ${op} was given a tensor that was already freed: return it from its scope, or keep() it.`,
    );
    this.name = "UseAfterFree";
  }
}

export class LibraryError extends Error {
  constructor(sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "LibraryError";
  }
}
