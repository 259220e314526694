// Errors that begin in native memory.

/** libtorch refused a call. The message names the op, its shapes and the library's own first line. */
export class NativeError extends Error {
  readonly op: string;
  readonly native: string;
  constructor(op: string, operands: string, native: string) {
    super(operands ? `${op}(${operands}): ${native}` : `${op}: ${native}`);
    this.name = "NativeError";
    this.op = op;
    this.native = native;
  }
  /** True when it was the GPU or its driver that failed: nothing can be computed there by this process any more. */
  get ofDevice(): boolean {
    return !this.outOfMemory &&
      /CUDA (driver )?error|CUBLAS_STATUS_|CUDNN_STATUS_|cuDNN error|CUFFT_|cudaError/.test(this.native);
  }
  /** True when the device or the host had no memory left for the call. */
  get outOfMemory(): boolean {
    return /out of memory|can't allocate memory|bad_alloc|DefaultCPUAllocator/i.test(this.native);
  }
}

/** A tensor was used after its scope ended or after free(). Always a bug in the calling code. */
export class UseAfterFree extends Error {
  constructor(op: string) {
    super(
      `internal: ${op} was given a tensor that was already freed: return it from its scope, or keep() it.`,
    );
    this.name = "UseAfterFree";
  }
}

/** libtorch could not be opened, or lacks something this program needs. */
export class LibraryError extends Error {
  constructor(sentence: string, options?: ErrorOptions) {
    super(sentence, options);
    this.name = "LibraryError";
  }
}
