/**
 * hpctrain as a library: tensors over libtorch, modules and models, data, training, checkpoints, settings.
 *
 * Open a libtorch first:
 *
 * ```ts
 * import { openDevice, getDebugConfig } from "./mod.ts";
 * const { device } = openDevice(getDebugConfig());
 * ```
 *
 * @module
 */

// Tensors and ops
export { type Device, keep, liveTensors, scope, Tensor } from "./ffi/tensor.ts";
export type { DType } from "./ffi/dtype.ts";
export * as ops from "./ffi/ops.ts";
export {
  add,
  fill_,
  ones,
  readBytes,
  scalar,
  scale,
  sub,
  tensor,
  toBigInts,
  toDevice,
  toNumbers,
  zeros,
} from "./ffi/make.ts";
export { backward, noGrad, requireGrad } from "./ffi/autograd.ts";
export { autocast } from "./ffi/autocast.ts";
export { manualSeed, setThreads } from "./ffi/random.ts";

// Models
export * as nn from "./core/models/nn/mod.ts";
export {
  type Activation,
  type Block,
  block,
  type Facts,
  forward,
  type Model,
  model,
} from "./core/models/model.ts";
export { createModel, MODELS } from "./core/models/registry.ts";
export { createLoss, type Loss } from "./core/models/losses.ts";

// Data
export { type Batch, type Source, source } from "./core/data/source.ts";
export { globalBatch, order } from "./core/data/order.ts";
export { key } from "./core/random.ts";

// Training
export { openDevice } from "./core/train/device.ts";
export { type Arena, packParameters } from "./core/train/arena.ts";
export { createOptimizer, type Optimizer } from "./core/train/optimizers/optimizer.ts";
export { learningRate, type Schedule } from "./core/train/schedule.ts";
export { sharesOf, type StepOptions, trainStep } from "./core/train/step.ts";

// Checkpoints
export { openCheckpoint } from "./core/checkpoint/open.ts";
export { readPt, writePt } from "./core/checkpoint/pt.ts";
export { loadWeights } from "./core/checkpoint/training_state.ts";

// Settings
export type { Config } from "./core/config/settings.ts";
export {
  getDebugConfig,
  getMultiGpuConfig,
  getMultiNodeConfig,
  getSingleGpuConfig,
} from "./core/config/library.ts";
export { UserError } from "./core/errors.ts";
