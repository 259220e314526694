// One thread's tensor as another's bytes: threads of one process share its memory. Needs no libtorch. Imports nothing.

/** Where a tensor's memory is, to be sent to another thread (make.ts: placeOf). */
export interface Place {
  readonly address: bigint;
  readonly bytes: number;
}

/** The memory at a place, for as long as the tensor it belongs to is kept. */
export function bytesAt({ address, bytes }: Place): Uint8Array<ArrayBuffer> {
  if (bytes === 0) return new Uint8Array(0);
  return new Uint8Array(Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, bytes));
}
