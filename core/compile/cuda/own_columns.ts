// Sums over columns: each thread keeps the sums of the columns that it has in every row, in registers, and at its end a block
// makes one part of all of its threads' sums.
import { type KernelSchedule, ownColumns } from "./schedule.ts";

export interface OwnSum {
  /** The array that a thread keeps it in. */
  readonly name: string;
  /** "Sum" or "Greatest". */
  readonly op: string;
  /** The place of a column's part. */
  place(column: string): string;
}

export function beginOwn({ name, op }: OwnSum, inner: number, schedule: KernelSchedule): string[] {
  const columns = ownColumns(inner, schedule);
  return [
    `float ${name}[${columns}];`,
    "#pragma unroll",
    `for (int u = 0; u < ${columns}; u++) ${name}[u] = ${op}::first();`,
  ];
}

/** `loop` goes over a thread's columns; `shared` numbers are what a block needs in common. */
export function endOfOwn(
  sum: OwnSum,
  inner: number,
  { width, threads, lanes }: KernelSchedule,
  loop: (body: readonly string[]) => string[],
): { readonly lines: string[]; readonly shared: number } {
  const eachOwn = (line: (column: string, own: string) => string): string[] =>
    loop(Array.from({ length: lanes }, (_, lane) => {
      const [column, u] = lanes > 1 ? [`(c + ${lane})`, `u * ${lanes} + ${lane}`] : ["c", "u"];
      return line(column, `${sum.name}[${u}]`);
    }));
  if (width === 1) return { lines: ofWholeRows(sum, inner), shared: 32 };
  if (width === threads) { // no other thread has these columns
    return { lines: eachOwn((column, own) => `${sum.place(column)} = ${own};`), shared: 0 };
  }
  const lines = [
    "__syncthreads();",
    ...eachOwn((column, own) => `shared[threadIdx.x / ${width} * ${inner} + ${column}] = ${own};`),
    ...ofRows(sum, threads / width, inner, threads, `${sum.place("k")} = sum;`),
  ];
  return { lines, shared: threads / width * inner };
}

/** Threads that stay in their columns: those above one another are summed up. */
export function endOfColumns(
  sum: OwnSum,
  inner: number,
  { width, threads, lanes }: KernelSchedule,
): string[] {
  const columns = width * lanes, across = Math.ceil(inner / columns);
  const own = `threadIdx.x / ${width} * ${columns} + threadIdx.x % ${width} * ${lanes}`;
  return [
    "__syncthreads();",
    ...Array.from({ length: lanes }, (_, lane) => `shared[${own} + ${lane}] = ${sum.name}[${lane}];`),
    ...ofRows(
      sum,
      threads / width,
      columns,
      threads,
      `const int column = blockIdx.x % ${across} * ${columns} + k;`,
      `if (column < ${inner}) ${sum.place("column")} = sum;`,
    ),
  ];
}

/** Sums up rows of shared numbers in order; `store` puts column k's sum where it belongs. */
const ofRows = (
  { op }: OwnSum,
  rows: number,
  columns: number,
  threads: number,
  ...store: string[]
): string[] => [
  "__syncthreads();",
  `for (int k = threadIdx.x; k < ${columns}; k += ${threads}) {`,
  "  float sum = shared[k];",
  `  for (int row = 1; row < ${rows}; row++) sum = ${op}::join(sum, shared[row * ${columns} + k]);`,
  ...store.map((line) => `  ${line}`),
  "}",
];

/** Each thread has all columns. */
const ofWholeRows = ({ name, op, place }: OwnSum, inner: number): string[] =>
  Array.from({ length: inner }, (_, c) => [
    `${name}[${c}] = of_block<${op}>(${name}[${c}], shared);`,
    `if (threadIdx.x == 0) ${place(String(c))} = ${name}[${c}];`,
  ]).flat();
