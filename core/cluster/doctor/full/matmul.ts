// How fast a device multiplies matrices, for a second or two, and whether it does so twice alike. May import ffi.
import { setCudaDevice, synchroniseCuda } from "../../../../ffi/cuda.ts";
import { readBytes, tensor, toDevice } from "../../../../ffi/make.ts";
import { matmul } from "../../../../ffi/ops.ts";
import { type Device, scope } from "../../../../ffi/tensor.ts";

export interface Speed {
  readonly gflops: number;
  readonly same: boolean;
}

/** Large enough for a GPU to be busy, small enough for a slow core to come to its end. */
const SIDE = { cpu: 512, cuda: 4096 } as const;
/** Queued on a GPU before the host looks at the time. */
const BATCH = { cpu: 1, cuda: 8 } as const;

/** Parts of the time; the best one counts, so that a neighbour's short work is not taken for a slow device. */
const PARTS = 5;

/** By the clock on the wall: who is kept from computing all the time is slow, whatever the reason. */
export function matmulSpeed(device: Device, seconds: number): Speed {
  const kind = device === "cpu" ? "cpu" : "cuda", n = SIDE[kind];
  if (device !== "cpu") setCudaDevice(Number(device.slice("cuda:".length)));
  return scope(() => {
    const host = tensor(Float32Array.from({ length: n * n }, (_, i) => Math.sin(i % 1013)), [n, n]);
    const a = device === "cpu" ? host : toDevice(host, device);
    const product = () => scope(() => readBytes(matmul(a, a)));
    const first = product(); // brings libraries and memory in
    const part = (): number => {
      const began = performance.now();
      let count = 0, passed = 0;
      for (; passed < seconds / PARTS || count === 0; passed = (performance.now() - began) / 1000) {
        for (let i = 0; i < BATCH[kind]; i++, count++) scope(() => void matmul(a, a));
        synchroniseCuda();
      }
      return count * 2 * n ** 3 / passed / 1e9;
    };
    const gflops = Math.max(...Array.from({ length: PARTS }, part));
    return { gflops, same: sameBytes(first, product()) };
  });
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}
