// All modules under one name, for mod.ts: nn.Linear, nn.Conv2d, ... Imports its siblings.

/**
 * Modules with PyTorch's names, which draw PyTorch's weights from the same seed: Linear, Conv2d, LayerNorm, ...; Module
 * to extend; init.
 *
 * @module
 */
export * from "./activations.ts";
export * from "./attention.ts";
export { BatchNorm, type BatchNormOptions } from "./batch_norm.ts";
export * from "./conv.ts";
export * from "./conv_transpose.ts";
export * from "./dropout.ts";
export * from "./embedding.ts";
export * as init from "./init.ts";
export * from "./linear.ts";
export * from "./module.ts";
export * from "./norms.ts";
export * from "./pooling.ts";
export * from "./upsample.ts";
