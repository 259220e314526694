// `hpctrain export CHECKPOINT OUT.onnx`.
import type { ProgramForm } from "../../core/export/programs.ts";
import { writeOnnx } from "./file.ts";

export const form: ProgramForm = {
  write: (path, { name }, recorded, notes) => writeOnnx(path, name, recorded, notes),
  inPython: (path) => `onnxruntime.InferenceSession("${path}")`,
};
