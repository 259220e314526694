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
