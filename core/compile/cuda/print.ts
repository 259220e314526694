// Groups in order as one text of CUDA C, and how its functions are launched. Equal groups are one function: what differs
// between them are addresses, which are arguments.
import type { GroupKernel } from "../kernel.ts";
import { printFinish } from "./finish.ts";
import { printCudaGroup } from "./group.ts";
import type { KernelArgument } from "./parameters.ts";
import { PRELUDE } from "./prelude.ts";

export interface GroupLaunch {
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

export interface CudaFunction {
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
