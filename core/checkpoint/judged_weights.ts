// Which of a checkpoint's weights a run was judged by. Imports value.
import { field, OrderedDict, type Value } from "./value.ts";

/** The averages (--ema) where the run kept some, in place of the weights they average: validation saw those. */
export function judgedWeights(root: Value): { root: Value; averaged: boolean } {
  const averages = field(field(root, "hpctrain"), "ema_state_dict");
  const weights = field(root, "model_state_dict");
  if (!(averages instanceof Map) || !(weights instanceof Map)) return { root, averaged: false };
  return { root: new OrderedDict([...weights, ...averages]), averaged: true };
}
