// Groups and products of a plan on a GPU: groups as kernels of this program's own, which are one text, products by
// libtorch. Stands in for machine code.
import { noGrad } from "../../../ffi/autograd.ts";
import { type KernelLaunch, loadKernels, type NoKernels } from "../../../ffi/cuda_kernels.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";
import type { MachineCode } from "../../../ffi/machine_code.ts";
import { uninitialised } from "../../../ffi/make.ts";
import { type Device, keep, scope } from "../../../ffi/tensor.ts";
import { ELEMENT_BYTES, type GroupKernel, type Kernel } from "../kernel.ts";
import type { Slot } from "../place.ts";
import type { ProgramPart } from "../program.ts";
import { inBatches } from "../batches.ts";
import { printCuda } from "./print.ts";
import { type LibraryProduct, makeProduct, type SlotTensors } from "./products.ts";

export interface CudaMaker {
  /** Kernels in order as one piece of code. The last one that is freed takes all with it. */
  code(kernels: readonly Kernel[]): MachineCode;
  /** Bytes of machine code of all groups. */
  readonly bytes: number;
}

/** Their memory begins at a multiple of 16 bytes, as the allocator and the arena give it. */
const ALIGNED: ReadonlySet<Slot["from"]> = new Set(
  ["memory", "weights", "parameter", "gradient", "output", "result"] as const,
);
const ALIGNMENT = 16;

export const alignedIn = (table: readonly Slot[]) => (slot: number): boolean => ALIGNED.has(table[slot].from);

/** The kernels name the slots 0 to `slots` - 1; `aligned` begin at a multiple of 16 bytes. */
export function openCuda(
  parts: readonly ProgramPart[],
  slots: number,
  aligned: (slot: number) => boolean,
  device: Device,
): CudaMaker | NoKernels {
  const groups = parts.filter((part): part is GroupKernel => part.kernel === "group");
  const { prelude, functions, launches, scratch } = printCuda(groups, aligned);
  const kernels = loadKernels({ prelude, functions }, slots + 1);
  if ("refused" in kernels) return kernels;
  const workspace = keep(uninitialised([Math.max(1, scratch)], { device }));
  kernels.setSlot(slots, workspace);
  const launchesOf = new Map(groups.map((group, i) => [
    group,
    launches[i].map(({ arguments: list, scratch, ...launch }): KernelLaunch => ({
      ...launch,
      arguments: [
        ...list.map(({ slot, offset, kind }) => ({ slot, bytes: ELEMENT_BYTES[kind] * offset })),
        ...(scratch ? [{ slot: slots, bytes: 0 }] : []),
      ],
    })),
  ]));
  const tensors: SlotTensors = [];
  let living = 0;
  return {
    bytes: kernels.bytes,
    code(list) {
      living++;
      const steps = inBatches(list, { backwards: false }).flatMap(
        (kernel): (KernelLaunch | LibraryProduct)[] => {
          switch (kernel.kernel) {
            case "group":
              return launchesOf.get(kernel)!;
            case "gemm":
            case "batch":
              return [makeProduct(kernel, tensors)];
            default:
              throw new Error(`internal: a GPU has no ${kernel.kernel}.`);
          }
        },
      );
      return {
        setSlot(slot, tensor, byteOffset = 0) {
          if (aligned(slot) && (tensor.offset * dtypeBytes(tensor.dtype) + byteOffset) % ALIGNMENT !== 0) {
            throw new Error(`internal: memory of a kernel begins at ${tensor.offset}.`);
          }
          kernels.setSlot(slot, tensor, byteOffset);
          tensors[slot] = { tensor, bytes: byteOffset };
        },
        run: () =>
          noGrad(() =>
            scope(() => {
              for (const step of steps) {
                if ("function" in step) kernels.launch(step);
                else step.run();
              }
            })
          ),
        free() {
          if (--living > 0) return;
          kernels.free();
          workspace.free();
        },
      };
    },
  };
}
