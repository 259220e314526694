// A module's weights to a file that PyTorch's torch.load reads, for programs with a training loop of their own.
// May import checkpoint, models (types).
import { writePt } from "../checkpoint/pt.ts";
import { toData } from "../checkpoint/tensors.ts";
import { OrderedDict } from "../checkpoint/value.ts";
import type { Module } from "../models/nn/module.ts";

/** Writes the state dict to a .pt file, whole or not at all: `model.load_state_dict(torch.load(path))` takes it. */
export function saveWeights(path: string, module: Module): void {
  writePt(path, new OrderedDict(module.stateDict().map(([name, tensor]) => [name, toData(tensor)])));
}
