// A program without a dimension for the batch, as a net on a graph has it (x of [nodes, features], edge_index of [2, edges]): its
// inputs are one sample. It becomes a program for batches of one.
import type { InputColumn } from "../model.ts";
import type { ExportedProgram, GraphNode, GraphOutput, GraphValue, TensorMeta } from "./graph.ts";
import { fitSizes } from "./check.ts";

/** The same program where the data's columns are for batches; several inputs alone tell that they are not. */
export function forBatches(program: ExportedProgram, columns: readonly InputColumn[] = []): ExportedProgram {
  const users = program.inputs.flatMap((input) =>
    input.kind === "user" && input.value.kind === "tensor" ? [input.value.name] : []
  );
  const given = program.inputs.filter(({ kind }) => kind === "user").length;
  if (users.length < 2 || users.length !== given || users.length !== columns.length) return program;
  const labels = users.map((name, i) => program.inputNames[i] || name);
  const named = labels.every((label) => columns.some(({ name }) => name === label));
  const metas = users.map((name) => program.tensors.get(name)!);
  const shapes = labels.map((label, i) =>
    (named ? columns.find(({ name }) => name === label)! : columns[i]).shape
  );
  const isWhole = metas.every(({ sizes }, i) => isSample(shapes[i], sizes));
  return isWhole && metas.some(({ sizes }, i) => !fitSizes(shapes[i], sizes.slice(1)))
    ? ofOne(program, users)
    : program;
}

const isSample = (shape: readonly number[], { length, ...sizes }: TensorMeta["sizes"]): boolean =>
  shape.length === length && shape.every((side, i) => typeof sizes[i] !== "number" || sizes[i] === side);

const batched = (name: string): string => `${name}__of_batch`;

function ofOne(program: ExportedProgram, users: readonly string[]): ExportedProgram {
  const tensors = new Map(program.tensors);
  const withOne = (name: string) => {
    const meta = tensors.get(name)!;
    tensors.set(batched(name), {
      ...meta,
      sizes: [1, ...meta.sizes],
      strides: [meta.strides[0] ?? 1, ...meta.strides],
    });
  };
  const before = users.map((name) => {
    withOne(name);
    return step("torch.ops.aten.squeeze.dim", batched(name), name);
  });
  const after: GraphNode[] = [];
  const outputs = program.outputs.map((output): GraphOutput => {
    const { value } = output;
    if (output.kind !== "user" || value.kind !== "tensor" || !tensors.get(value.name)?.sizes.length) {
      return output;
    }
    withOne(value.name);
    after.push(step("torch.ops.aten.unsqueeze.default", value.name, batched(value.name)));
    return { ...output, value: tensorValue(batched(value.name)) };
  });
  const inputs = program.inputs.map((input) =>
    input.kind === "user" && input.value.kind === "tensor"
      ? { ...input, value: tensorValue(batched(input.value.name)) }
      : input
  );
  const inputNames = program.inputNames.map((label, i) => label || users[i]);
  return { ...program, inputs, outputs, tensors, inputNames, nodes: [...before, ...program.nodes, ...after] };
}

const tensorValue = (name: string): GraphValue => ({ kind: "tensor", name });

const step = (target: string, from: string, to: string): GraphNode => ({
  target,
  inputs: [
    { name: "self", value: tensorValue(from) },
    { name: "dim", value: { kind: "number", value: 0, as: "int" } },
  ],
  outputs: [tensorValue(to)],
  module: "",
  trace: "",
});
