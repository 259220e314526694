// LoRA (Hu et al. 2021): low-rank adapters beside linear layers, convolutions and attention's projection, with peft's names
// and sums. core/checkpoint/adapters.ts merges them into the weights.
import { add, scale } from "../../../ffi/make.ts";
import type { Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { checkPatterns, matcher } from "../../base/patterns.ts";
import { MultiheadAttention } from "./attention.ts";
import { Conv1d, Conv2d, Conv3d } from "./conv.ts";
import { fill } from "./init.ts";
import { Dropout, Linear } from "./linear.ts";
import { Adaptable, type Adapter, type Module } from "./module.ts";

export interface LoraOptions {
  readonly rank: number;
  readonly alpha: number;
  readonly dropout: number;
  /** Patterns of layers; all where it is empty. */
  readonly only: readonly string[];
  /** The last layer is the head, which gets none unless a pattern fits it. */
  readonly butLast: boolean;
}

const CONVS = [Conv1d, Conv2d, Conv3d] as const;

/** Puts adapters beside the layers that the options choose; they add nothing before they have learnt. */
export function adaptLayers(root: Module, options: LoraOptions): void {
  const found = adaptable(root), layers = found.filter(([, layer]) => groupsOf(layer) === 1);
  const names = layers.map(([name]) => name);
  refuseGrouped(found.map(([name, layer]) => ({ name, groups: groupsOf(layer) })), options.only);
  checkPatterns("--lora-for", options.only, names);
  const patterned = matcher(options.only), last = names.at(-1);
  const chosen = layers.filter(([name]) =>
    options.only.length > 0 ? patterned(name) : !(options.butLast && name === last)
  );
  if (chosen.length === 0) {
    throw new UserError(
      "usage",
      "--lora-rank finds no linear or convolutional layer of one group beside the head: train without it.",
    );
  }
  for (const [, layer] of chosen) layer.adapt(adapterOf(layer, options));
}

const adaptable = (root: Module) =>
  root.namedModules().filter((entry): entry is [string, Adaptable] => entry[1] instanceof Adaptable);

const groupsOf = (layer: Adaptable): number => (layer as Partial<Conv2d>).options?.groups ?? 1;

/** Each group of a convolution has few channels: a product of lower rank has hardly fewer numbers, or mixes the groups. */
export function refuseGrouped(
  layers: readonly { readonly name: string; readonly groups: number }[],
  only: readonly string[],
): void {
  for (const pattern of only) {
    const fits = matcher([pattern]), fitting = layers.filter(({ name }) => fits(name));
    if (fitting.length === 0 || fitting.some(({ groups }) => groups === 1)) continue;
    const [{ name, groups }] = fitting;
    throw new UserError(
      "usage",
      `--lora-for ${pattern} fits ${name}, a convolution of ${groups} groups: an adapter would mix the groups, and nothing ` +
        "could merge it into the weight. Name other layers.",
    );
  }
}

function adapterOf(layer: Adaptable, { rank, alpha, dropout }: LoraOptions): Adapter {
  const drop = new Dropout(dropout);
  const [down, up] = mapsOf(layer, rank);
  fill(up.weight, 0);
  return {
    parts: { lora_dropout: drop, lora_A: down, lora_B: up },
    added: (y: Tensor, x: Tensor) => add(y, scale(up.forward(down.forward(drop.forward(x))), alpha / rank)),
  };
}

type Maps = [down: Linear, up: Linear] | [down: Conv2d, up: Conv2d];

function mapsOf(layer: Adaptable, rank: number): Maps {
  if (layer instanceof MultiheadAttention) {
    const { heads, width } = layer.attends, embed = heads * width;
    return linearMaps(embed, 3 * embed, rank);
  }
  if (layer instanceof Linear) {
    const [out, into] = layer.weight.shape;
    return linearMaps(into, out, rank);
  }
  const Conv = CONVS.find((Conv) => layer instanceof Conv);
  if (!Conv) throw new Error("internal: no adapter for this layer.");
  const { weight, options } = layer as Conv2d;
  const [out, into, ...kernel] = weight.shape;
  return [
    new Conv(into, rank, kernel, { ...options, bias: false }),
    new Conv(rank, out, 1, { bias: false }),
  ] as Maps;
}

const linearMaps = (into: number, out: number, rank: number): Maps => [
  new Linear(into, rank, { bias: false }),
  new Linear(rank, out, { bias: false }),
];
