// `hpctrain export CHECKPOINT OUT.onnx`.
import type { ProgramForm } from "../../core/export/programs.ts";
import { VERSION } from "../../core/base/version.ts";
import { UserError } from "../../core/base/errors.ts";
import { writeAll, writeAtomically } from "../../core/base/atomic.ts";
import { ProtoWriter } from "../../core/outputs/proto.ts";
import {
  Batches,
  type ProgramValue,
  type RecordedModel,
  type RecordedSize,
} from "../../core/export/recorded.ts";
import { type Attribute, type Constant, OnnxGraph, type OnnxNode, TENSOR_TYPES } from "./graph.ts";
import { writeOp } from "./ops.ts";

// An ONNX file: the graph as a message of protocol buffers (onnx.proto), for onnxruntime and what else reads it.

/** Opset 20 has GELU, and LayerNormalization of 17. */
const IR_VERSION = 9, OPSET = 20;
/** A message of protocol buffers ends here. */
const MOST_BYTES = 2 ** 31 - 1;

/** `notes` go into the file's metadata. */
export function writeOnnx(
  path: string,
  name: string,
  recorded: RecordedModel,
  notes: Readonly<Record<string, string>>,
): void {
  const graph = new OnnxGraph(recorded);
  for (const op of recorded.ops) writeOp(graph, op);
  graph.finish();
  const size = graph.constants.reduce((sum, { bytes }) => sum + bytes.length, 0);
  if (size > MOST_BYTES - 2 ** 24) {
    throw new UserError(
      "usage",
      `The weights take more than 2 GiB, which is the most that an ONNX file holds: write OUT.pt2.`,
    );
  }
  const bytes = message(name, graph, notes);
  writeAtomically(path, (file) => writeAll(file, bytes), { needBytes: bytes.length });
}

function message(name: string, graph: OnnxGraph, notes: Readonly<Record<string, string>>): Uint8Array {
  const p = new ProtoWriter();
  p.int(1, IR_VERSION);
  p.text(2, "hpctrain");
  p.text(3, VERSION);
  p.message(7, () => {
    for (const node of graph.nodes) p.message(1, () => writeNode(p, node));
    p.text(2, name);
    for (const constant of graph.constants) p.message(5, () => writeConstant(p, constant));
    p.message(11, () => writeValue(p, "input", graph.recorded.input));
    p.message(12, () => writeValue(p, "output", graph.recorded.output));
  });
  p.message(8, () => p.int(2, OPSET));
  for (const [key, value] of Object.entries(notes)) {
    p.message(14, () => {
      p.text(1, key);
      p.text(2, value);
    });
  }
  return p.bytes();
}

function writeNode(p: ProtoWriter, { type, inputs, outputs, attributes }: OnnxNode): void {
  for (const input of inputs) p.text(1, input);
  for (const output of outputs) p.text(2, output);
  p.text(4, type);
  for (const [name, value] of Object.entries(attributes)) p.message(5, () => writeAttribute(p, name, value));
}

const FLOAT = 1, INT = 2, STRING = 3, INTS = 7;

function writeAttribute(p: ProtoWriter, name: string, value: Attribute): void {
  p.text(1, name);
  if (typeof value === "number") {
    p.present(3, value);
    p.int(20, INT);
  } else if (typeof value === "string") {
    p.blob(4, new TextEncoder().encode(value));
    p.int(20, STRING);
  } else if ("float" in value) {
    p.float(2, value.float);
    p.int(20, FLOAT);
  } else {
    for (const one of value) p.present(8, one);
    p.int(20, INTS);
  }
}

function writeConstant(p: ProtoWriter, { name, type, shape, bytes }: Constant): void {
  for (const size of shape) p.present(1, size);
  p.int(2, type);
  p.text(8, name);
  p.blob(9, bytes);
}

function writeValue(p: ProtoWriter, name: string, { dtype, shape }: ProgramValue): void {
  p.text(1, name);
  p.message(2, () =>
    p.message(1, () => {
      p.int(1, TENSOR_TYPES[dtype]!);
      p.message(2, () => {
        for (const size of shape) p.message(1, () => writeSize(p, size));
      });
    }));
}

function writeSize(p: ProtoWriter, size: RecordedSize): void {
  if (!(size instanceof Batches)) p.present(1, size);
  else p.text(2, size.times === 1 ? "batch" : `${size.times}*batch`);
}

export const form: ProgramForm = {
  write: (path, { name }, recorded, notes) => writeOnnx(path, name, recorded, notes),
  inPython: (path) => `onnxruntime.InferenceSession("${path}")`,
};
