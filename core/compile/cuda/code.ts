// Groups and products of a plan on a GPU: groups as kernels of this program's own, which are one text, products by
// libtorch. Stands in for machine code.
import { noGrad } from "../../../ffi/autograd.ts";
import { type KernelLaunch, loadKernels, type NoKernels } from "../../../ffi/cuda_kernels.ts";
import { dtypeBytes } from "../../../ffi/dtype.ts";
import type { MachineCode } from "../../../ffi/machine_code.ts";
import { uninitialised, viewDtype } from "../../../ffi/make.ts";
import { type Device, keep, scope, type Tensor } from "../../../ffi/tensor.ts";
import {
  ELEMENT_BYTES,
  type GemmKernel,
  type GroupKernel,
  type Kernel,
  type Reduction,
  type StridedAccess,
} from "../kernel.ts";
import type { Slot } from "../place.ts";
import type { ProgramPart } from "../program.ts";
import { inBatches, type ProductBatch } from "../batches.ts";
import { aten } from "../../../ffi/aten.ts";
import { asStrided, bmm, copy_, reshape } from "../../../ffi/ops.ts";
import { isHalf } from "../graph.ts";
import { type PartialRows, printCudaGroup } from "./group.ts";
import { opName, PRELUDE } from "./prelude.ts";
import type { KernelArgument } from "./parameters.ts";

interface CudaMaker {
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

// Products of a plan on a GPU: libtorch's, into the plan's memory.

/** c = a b. Gradients are added by groups. */
const into = {
  mm: aten("mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
  bmm: aten("bmm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)"),
};

/** libtorch adds these up as f32, of half precision, and leaves them so. */
const widened = {
  mm: aten("mm.dtype_out(Tensor self, Tensor mat2, ScalarType out_dtype, *, Tensor(a!) out) -> Tensor(a!)"),
  bmm: aten("bmm.dtype_out(Tensor self, Tensor mat2, ScalarType out_dtype, *, Tensor(a!) out) -> Tensor(a!)"),
};

function intoPlace(name: "mm" | "bmm", a: Tensor, b: Tensor, c: Tensor): void {
  if (a.dtype !== b.dtype) throw new Error(`internal: a product of ${a.dtype} and ${b.dtype}.`);
  if (a.dtype === c.dtype) into[name](a, b, c);
  else widened[name](a, b, c.dtype, c);
}

/** The tensors of a plan's slots, and the byte of each where the slot begins. */
type SlotTensors = { readonly tensor: Tensor; readonly bytes: number }[];

interface LibraryProduct {
  run(): void;
}

interface View {
  readonly slot: number;
  readonly offset: number;
  readonly kind: StridedAccess["kind"];
  readonly sizes: readonly number[];
  readonly strides: readonly number[];
}

/** Runs in a scope. */
function makeProduct(kernel: GemmKernel | ProductBatch, slots: SlotTensors): LibraryProduct {
  const { add } = kernel.kernel === "gemm" ? kernel : kernel.product;
  if (add) throw new Error("internal: a product that adds, on a GPU.");
  if (kernel.kernel === "gemm") {
    const { m, n, k } = kernel;
    const [a, b, c] = [
      viewOf(kernel.a, [], [m, k]),
      viewOf(kernel.b, [], [k, n]),
      viewOf(kernel.c, [], [m, n]),
    ];
    return { run: () => intoPlace("mm", tensorOf(a, slots), tensorOf(b, slots), tensorOf(c, slots)) };
  }
  const { product, product: { m, n, k }, repeats } = kernel;
  const view = (name: "a" | "b" | "c", sizes: readonly number[]) =>
    joined(viewOf(product[name], repeats.map((one) => ({ count: one.count, step: one[name] })), sizes));
  const [a, b, c] = [view("a", [m, k]), view("b", [k, n]), view("c", [m, n])];
  const count = repeats.reduce((all, one) => all * one.count, 1);
  // Samples and heads that no one stride goes through are copied first.
  const batch = ({ sizes, ...rest }: View): Tensor => {
    const tensor = tensorOf({ ...rest, sizes }, slots);
    return sizes.length === 3 ? tensor : reshape(tensor, [count, ...sizes.slice(-2)]);
  };
  if (c.sizes.length === 3) {
    return { run: () => intoPlace("bmm", batch(a), batch(b), tensorOf(c, slots)) };
  }
  return {
    run() {
      const made = reshape(bmm(batch(a), batch(b)), c.sizes);
      copy_(tensorOf(c, slots), made);
    },
  };
}

function viewOf(
  { slot, offset, strides, kind }: StridedAccess,
  repeats: readonly { readonly count: number; readonly step: number }[],
  sizes: readonly number[],
): View {
  return {
    slot,
    offset,
    kind,
    sizes: [...repeats.map(({ count }) => count), ...sizes],
    strides: [...repeats.map(({ step }) => step), ...strides],
  };
}

/** Two dimensions of repeats that are crossed in one stride are one. */
function joined(view: View): View {
  const { sizes, strides } = view;
  if (sizes.length < 4 || strides[0] !== strides[1] * sizes[1]) return view;
  return {
    ...view,
    sizes: [sizes[0] * sizes[1], ...sizes.slice(2)],
    strides: strides.slice(1),
  };
}

function tensorOf({ slot, offset, kind, sizes, strides }: View, slots: SlotTensors): Tensor {
  const { tensor, bytes } = slots[slot];
  const typed = isHalf(kind) && tensor.dtype !== kind ? viewDtype(tensor, kind) : tensor;
  return asStrided(typed, sizes, strides, offset + bytes / ELEMENT_BYTES[kind] + typed.offset);
}

// Groups in order as one text of CUDA C, and how its functions are launched. Equal groups are one function: what differs
// between them are addresses, which are arguments.

interface GroupLaunch {
  readonly function: string;
  readonly blocks: number;
  readonly threads: number;
  /** Addresses in order. */
  readonly arguments: readonly KernelArgument[];
  /** The address of scratch memory is the last argument. */
  readonly scratch: boolean;
}

export interface CudaText {
  /** It stands before each function. */
  readonly prelude: string;
  readonly functions: readonly CudaFunction[];
  /** Each kernel has its own list; they stand in the kernels' order. */
  readonly launches: readonly (readonly GroupLaunch[])[];
  /** f32 elements. */
  readonly scratch: number;
}

interface CudaFunction {
  readonly name: string;
  readonly text: string;
}

/** A function before it has a name. */
interface Unnamed {
  readonly parameters: string;
  readonly body: string;
  readonly threads: number;
  /** So many of its blocks share a multiprocessor: none of them takes more registers than that leaves. */
  readonly together?: number;
}

/** `aligned` says whether a slot's memory begins at a multiple of 16 bytes. */
export function printCuda(kernels: readonly GroupKernel[], aligned: (slot: number) => boolean): CudaText {
  const names = new Map<string, string>();
  const functions: CudaFunction[] = [];
  let scratch = 0;
  const named = (kind: string, { parameters, body, threads, together = 1 }: Unnamed): string => {
    const key = `${parameters}\n${body}`;
    let name = names.get(key);
    if (name === undefined) {
      names.set(key, name = `${kind}${names.size}`);
      const bounds = `__launch_bounds__(${threads}, ${together})`;
      const head = `extern "C" __global__ void ${bounds} ${name}(${parameters})`;
      functions.push({ name, text: `${head} {\n${body}}\n` });
    }
    return name;
  };
  const launches = kernels.map((kernel) => {
    const group = printCudaGroup(kernel, aligned);
    const { blocks, threads, keeps } = group.schedule;
    const launch: GroupLaunch = {
      function: named("group", { ...group, threads, together: keeps ? 2 : 1 }),
      ...{ blocks, threads, arguments: group.arguments, scratch: group.scratch > 0 },
    };
    scratch = Math.max(scratch, group.scratch);
    if (group.parts.length === 0) return [launch];
    const finish = printFinish(group.parts);
    return [launch, {
      function: named("finish", finish),
      ...{ blocks: finish.blocks, threads: finish.threads, arguments: finish.arguments, scratch: true },
    }];
  });
  return { prelude: PRELUDE, functions, launches, scratch };
}

// The second step of sums over columns and over everything: the parts that blocks have left, in a fixed order.

const THREADS = 256;
/** Columns of a block; the threads above one another share the parts of one. */
const COLUMNS = 32;

interface PrintedFinish {
  readonly arguments: readonly KernelArgument[];
  readonly parameters: string;
  readonly body: string;
  readonly blocks: number;
  readonly threads: number;
}

/** Each sum has blocks of its own. */
function printFinish(parts: readonly PartialRows[]): PrintedFinish {
  let blocks = 0;
  const lines = parts.flatMap((one, i) => {
    const begin = blocks;
    blocks += one.columns > 1 ? Math.ceil(one.columns / COLUMNS) : 1;
    const last = i === parts.length - 1;
    return [
      ...(last ? [] : [`if (blockIdx.x < ${blocks}) {`]),
      ...(one.columns > 1 ? columns(one, i, begin) : whole(one, i)).map((line) => last ? line : `  ${line}`),
      ...(last ? [] : ["  return;", "}"]),
    ];
  });
  const shared = [`__shared__ float shared[${parts.some(({ columns }) => columns > 1) ? THREADS : 32}];`];
  return {
    arguments: parts.map(({ reduction: { to } }) => ({ slot: to!.slot, offset: to!.offset, kind: "f32" })),
    parameters: [...parts.map((_, i) => `float *p${i}`), "float *scratch"].join(", "),
    body: [...shared, ...lines].map((line) => `  ${line}\n`).join(""),
    blocks,
    threads: THREADS,
  };
}

function columns({ reduction, begin, parts, columns }: PartialRows, i: number, first: number): string[] {
  const op = opName(reduction.op), stride = strideOf(reduction);
  const c = `c${i}`, sum = `sum${i}`, high = THREADS / COLUMNS;
  return [
    `const int ${c} = (blockIdx.x - ${first}) * ${COLUMNS} + threadIdx.x % ${COLUMNS};`,
    `float ${sum} = ${op}::first();`,
    `if (${c} < ${columns})`,
    `  for (int k = threadIdx.x / ${COLUMNS}; k < ${parts}; k += ${high})`,
    `    ${sum} = ${op}::join(${sum}, scratch[${begin} + k * ${columns} + ${c}]);`,
    `${sum} = of_column<${op}>(${sum}, ${COLUMNS}, shared);`,
    `if (threadIdx.x < ${COLUMNS} && ${c} < ${columns}) p${i}[${
      stride === 1 ? c : `(long long)${c} * ${stride}`
    }] = ${sum};`,
  ];
}

const strideOf = ({ to, over }: Reduction): number => over === "column" ? to!.strides.at(-1)! : 0;

function whole({ reduction, begin, parts }: PartialRows, i: number): string[] {
  const op = opName(reduction.op);
  return [
    `float sum${i} = ${op}::first();`,
    `for (int k = threadIdx.x; k < ${parts}; k += ${THREADS}) sum${i} = ${op}::join(sum${i}, scratch[${begin} + k]);`,
    `sum${i} = of_block<${op}>(sum${i}, shared);`,
    `if (threadIdx.x == 0) p${i}[0] = sum${i};`,
  ];
}
