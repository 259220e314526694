// `hpctrain inspect my.pt2`: what an exported program takes, gives, holds and does; and whether this machine's libtorch
// can run it. Imports core/models/exported, core/format, core/errors.
import { printable } from "../core/checkpoint/file_bytes.ts";
import { formatBytes, formatCount } from "../core/format.ts";
import { type Archive, openExported } from "../core/models/exported/archive.ts";
import { sizesText, warningsOf } from "../core/models/exported/check.ts";
import type { Node, Value } from "../core/models/exported/graph.ts";
import { refusedTarget } from "../core/models/exported/operators.ts";
import { placeOf } from "../core/models/exported/place.ts";

export const isProgram = (path: string): boolean => /\.pt2$/i.test(path);

export function inspectProgram(path: string, json: boolean): void {
  using archive = openExported(path);
  const found = describeProgram(archive);
  console.log(json ? JSON.stringify(found, null, 2) : render(found).join("\n"));
}

interface Field {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly (number | string)[];
}

export function describeProgram(archive: Archive) {
  const { path, program, weights, constants, fileBytes } = archive;
  const field = (value: Value): Field[] => {
    if (value.kind !== "tensor") return [];
    const meta = program.tensors.get(value.name);
    return [{ name: value.name, dtype: meta?.dtype ?? "?", shape: meta?.sizes ?? [] }];
  };
  const trained = new Set(program.inputs.flatMap((i) => i.kind === "parameter" ? [i.of] : []));
  const counts = Map.groupBy(program.nodes, ({ target }) => target.replace(/^torch\.ops\./, ""));
  return {
    path,
    fileBytes,
    format: "exported program (.pt2)",
    torch: program.torch,
    schema: program.version,
    inputs: program.inputs.flatMap((i) => i.kind === "user" ? field(i.value) : []),
    outputs: program.outputs.flatMap((o) => o.kind === "user" || o.kind === "loss" ? field(o.value) : []),
    operations: Object.fromEntries(
      [...counts].map(([target, nodes]) => [target, nodes.length] as const).sort((a, b) => b[1] - a[1]),
    ),
    refused: refusedIn(program.nodes),
    tensors: [...weights].map(([name, { dtype, shape, numel, byteLength }]) => ({
      name,
      dtype,
      shape,
      numbers: numel,
      bytes: byteLength,
      kind: trained.has(name) ? "parameter" : "buffer",
    })),
    constants: constants.size,
    warnings: warningsOf(archive),
  };
}

/** What is never run, on any machine: each kind of it once, with the line of Python that made the first. */
function refusedIn(nodes: readonly Node[]): { operation: string; why: string; place: string }[] {
  const first = new Map<string, Node>();
  for (const node of nodes) if (!first.has(node.target)) first.set(node.target, node);
  return [...first.values()].flatMap((node) => {
    const why = refusedTarget(node.target);
    return why === "" ? [] : [{ operation: node.target, why, place: placeOf(node) }];
  });
}

function render(found: ReturnType<typeof describeProgram>): string[] {
  const { inputs, outputs, operations, tensors } = found;
  const nodes = Object.values(operations).reduce((sum, count) => sum + count, 0);
  const fields = (title: string, all: readonly Field[]) =>
    all.map(({ name, dtype, shape }) => `  ${title} ${printable(name)}: ${dtype} ${sizesText(shape)}`);
  const most = Object.entries(operations).slice(0, 12)
    .map(([target, count]) =>
      `${printable(target).replace(/^aten\./, "").replace(/\.default$/, "")} ${count}`
    );
  const more = Object.keys(operations).length - most.length;
  const names = tensors.map(({ name }) => printable(name));
  const width = names.reduce((longest, name) => Math.max(longest, name.length), 0);
  const numbers = tensors.filter(({ kind }) => kind === "parameter").reduce((sum, t) => sum + t.numbers, 0);
  return [
    `${printable(found.path)}: ${found.format}, ${formatBytes(found.fileBytes)}`,
    `  written by PyTorch ${printable(found.torch)}, schema ${found.schema}`,
    ...fields("input", inputs),
    ...fields("output", outputs),
    `  ${nodes} operations: ${most.join(", ")}${more > 0 ? `, and ${more} other kinds` : ""}`,
    ...found.refused.map(({ operation, why, place }) =>
      printable(`  refused: ${operation}: ${why}${place === "" ? "" : ` (${place})`}`)
    ),
    ...found.warnings.map((line) => `  ${line}`),
    ...tensors.map(({ dtype, shape, bytes, kind }, i) =>
      `  ${names[i].padEnd(width)}  ${kind.padEnd(9)}  ${dtype.padEnd(4)}  ${
        formatBytes(bytes).padStart(10)
      }  [${shape.join(", ")}]`
    ),
    `total: ${formatCount(numbers)} trained numbers. Train it: hpctrain --model ${printable(found.path)} ...`,
  ];
}
