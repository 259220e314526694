// The second step of sums over columns and over everything: the parts that blocks have left, in a fixed order.
import type { Reduction } from "../kernel.ts";
import type { PartialRows } from "./group.ts";
import type { KernelArgument } from "./parameters.ts";
import { opName } from "./prelude.ts";

const THREADS = 256;
/** Columns of a block; the threads above one another share the parts of one. */
const COLUMNS = 32;

export interface PrintedFinish {
  readonly arguments: readonly KernelArgument[];
  readonly parameters: string;
  readonly body: string;
  readonly blocks: number;
  readonly threads: number;
}

/** Each sum has blocks of its own. */
export function printFinish(parts: readonly PartialRows[]): PrintedFinish {
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
