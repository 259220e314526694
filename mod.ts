/**
 * hpctrain as a library: tensors over libtorch, modules and models, data, training, ranks, checkpoints, settings.
 *
 * Open a libtorch first, then compute. Tensors are freed at the end of the `scope` that they are made in:
 *
 * ```ts
 * import { getDebugConfig, nn, openDevice, ops, scope } from "@hpctrain/hpctrain";
 * openDevice(getDebugConfig());
 * const layer = new nn.Linear(3, 2);
 * scope(() => console.log(layer.forward(ops.randn([8, 3])).shape)); // [8, 2]
 * ```
 *
 * A whole training loop on any number of ranks is in examples/own_loop.ts. What `hpctrain --model FILE.ts` gives to the
 * function of a user's file is this module, too: see docs/library.md.
 *
 * @module
 */

// Tensors and operations. What is made inside a scope is freed at its end, unless it is returned or kept.
export { type Device, keep, liveTensors, scope, Tensor } from "./ffi/tensor.ts";
export type { DType } from "./ffi/dtype.ts";
export * as ops from "./core/models/user/ops.ts";
export type { MemoryFormat } from "./ffi/schema.ts";
export {
  add,
  fill_,
  type Nested,
  type Numbers,
  ones,
  type Options,
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
export { backward, gradient, noGrad, requireGrad } from "./ffi/autograd.ts";
export { autocast, type Half } from "./ffi/context.ts";
export { manualSeed, setThreads } from "./ffi/context.ts";

// Models: modules have PyTorch's names, and draw PyTorch's weights from the same seed.
export * as nn from "./core/models/nn/mod.ts";
export type { Module } from "./core/models/nn/module.ts";
export {
  type Activation,
  type Block,
  block,
  type Facts,
  forward,
  type InputColumn,
  type Model,
  model,
} from "./core/models/model.ts";
export { createModel, MODELS } from "./core/models/registry.ts";
export { createLoss, type Loss } from "./core/models/losses.ts";
export type { PointWeights } from "./core/models/valid_points.ts";

// Data: which samples a rank takes is a function of the seed, the epoch and the step.
export {
  type Batch,
  batchOf,
  type Ids,
  type Known,
  type Missing,
  type Normalisation,
  type Part,
  plainPart,
  type Source,
  source,
  type SourceParts,
} from "./core/data/source/source.ts";
export type { Field } from "./core/data/source/reader.ts";
export { type InMemory, memorySource } from "./core/data/source/memory.ts";
export { globalBatch, type Order, order } from "./core/data/source/order.ts";
export { key } from "./core/base/random.ts";

// Training: a whole run, or its parts.
export { train, type Trained } from "./commands/run/train.ts";
export { openDevice } from "./core/train/device.ts";
export type { Libtorch } from "./ffi/libraries/find.ts";
export type { GpuKind } from "./ffi/gpu/backends.ts";
export { type Arena, packParameters } from "./core/train/arena.ts";
export { createOptimizer } from "./core/train/optimizers.ts";
export { type Optimizer, type OptimizerSettings } from "./core/train/optimizers/optimizer.ts";
export { learningRate, type Schedule } from "./core/train/schedule.ts";
export type { Outcome, Pass } from "./core/train/blocks.ts";
export type { LossScaler } from "./core/train/precision.ts";
export { type MicroBatch, type Share, sharesOf } from "./core/train/micro_batch.ts";
export { type StepOptions, type StepResult, trainStep } from "./core/train/user_step.ts";

// Ranks: over NCCL on GPUs, over MPI on CPUs.
export type { Env } from "./core/ranks/launchers.ts";
export type { PlaceFlags } from "./core/ranks/context.ts";
export { type RankContext, rankContext, type Surroundings } from "./core/ranks/context.ts";
export { type Joined, joinRanks } from "./core/ranks/session.ts";
export type { Backend, Collectives, ReduceOp, Ticket } from "./core/ranks/collectives.ts";
export type { Team } from "./core/ranks/team.ts";

// Checkpoints: .pt files that PyTorch reads and writes, and .safetensors.
export { type CheckpointFile, openCheckpoint } from "./core/checkpoint/open.ts";
export { type PtFile, readPt, writePt } from "./core/checkpoint/pt.ts";
export type { WriteOptions } from "./core/checkpoint/value.ts";
export {
  type Key,
  OrderedDict,
  type Storage,
  TensorData,
  TorchName,
  Tuple,
  type Value,
} from "./core/checkpoint/value.ts";
export { loadWeights } from "./core/checkpoint/training_state.ts";
export { saveWeights } from "./core/models/model.ts";

// Settings
export type { Config } from "./core/settings/settings.ts";
export {
  getDebugConfig,
  getMultiGpuConfig,
  getMultiNodeConfig,
  getSingleGpuConfig,
} from "./core/settings/resolve.ts";
export { type ExitKind, UserError } from "./core/base/errors.ts";

// The function of a user's file gets and returns these.
export type {
  DataLibrary,
  DataSettings,
  Judge,
  JudgeLibrary,
  Library,
  MadeData,
  MadeLoss,
  MadeMetrics,
  MadeModel,
  ModelLibrary,
  ModelSettings,
  Samples,
} from "./core/models/user/library.ts";
