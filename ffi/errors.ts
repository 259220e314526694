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
      /CUDA (driver )?error|CUBLAS_STATUS_|CUDNN_STATUS_|cuDNN error|CUFFT_|cudaError/.test(this.native);
  }
  get outOfMemory(): boolean {
    return /out of memory|can't allocate memory|bad_alloc|DefaultCPUAllocator/i.test(this.native);
  }
}

/** Says what to do about a failure of a GPU, by CUDA's own words for it; null where they say too little. */
export function deviceHelp(said: string): string | null {
  return HELP.find(([words]) => words.test(said))?.[1] ?? null;
}

const HELP: readonly (readonly [words: RegExp, help: string])[] = [
  [
    /busy or unavailable/,
    "Another process has this GPU for itself (exclusive compute mode, which nvidia-smi shows as E. Process): " +
    "take another with CUDA_VISIBLE_DEVICES, or ask the scheduler for one.",
  ],
  [
    /out of memory/,
    "Other processes hold this GPU's memory: nvidia-smi names them. Take another with CUDA_VISIBLE_DEVICES, or another node.",
  ],
  [
    /ECC/,
    "This GPU's memory is faulty and stays so until it is reset: tell the site, and take another node (--exclude).",
  ],
];

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
