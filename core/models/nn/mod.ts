// All modules under one name, for mod.ts: nn.Linear, nn.Conv2d, ...

/**
 * Modules with PyTorch's names, which draw PyTorch's weights from the same seed: Linear, Conv2d, LayerNorm, ...; Module
 * to extend; init.
 *
 * @module
 */
export * from "./activations.ts";
export * from "./attention.ts";
export * from "./conv.ts";
export * as init from "./init.ts";
export * from "./linear.ts";
export { Group, Module } from "./module.ts";
export {
  BatchNorm,
  BatchNorm1d,
  BatchNorm2d,
  BatchNorm3d,
  type BatchNormOptions,
  GroupNorm,
  LayerNorm,
  RMSNorm,
} from "./norms.ts";
export type { PaddingMode } from "./padding.ts";
export * from "./pooling.ts";
