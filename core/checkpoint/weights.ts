// The weights of a checkpoint as others take them: averages where the run kept some, and adapters merged in.
import { mergeAdapters } from "./adapters.ts";
import { findStateDict } from "./state_dict.ts";
import { OrderedDict, TensorData, type Value } from "./value.ts";

export interface ExportedWeights {
  readonly tensors: Map<string, TensorData>;
  /** The weights are the averages that the run was judged by (--ema). */
  readonly averaged: boolean;
}

/** `raw` ignores averages. */
export function weightsOf(root: Value, path: string, raw: boolean): ExportedWeights {
  const { tensors } = findStateDict(root, path);
  const averages = raw ? undefined : averagesIn(root);
  if (!averages) return { tensors: mergeAdapters(root, tensors), averaged: false };
  // Averages hold a tied weight once; its other names share the memory.
  const found = new Map<string, TensorData>();
  for (const [name, tensor] of tensors) {
    const own = averages.get(name);
    const tied = own ?? [...averages].find(([first]) => same(tensors.get(first), tensor))?.[1];
    found.set(name, tied ?? tensor);
  }
  return { tensors: mergeAdapters(root, found), averaged: true };
}

/** torch.load(weights_only=True) reads it and load_state_dict(strict=True) accepts it. */
export const stateDictOf = ({ tensors }: ExportedWeights): Value => new OrderedDict(tensors);

function averagesIn(root: Value): Map<string, TensorData> | undefined {
  const own = root instanceof Map ? root.get("hpctrain") : undefined;
  const saved = own instanceof Map ? own.get("ema_state_dict") : undefined;
  if (!(saved instanceof Map)) return undefined;
  return new Map(
    [...saved].flatMap(([name, tensor]): [string, TensorData][] =>
      tensor instanceof TensorData ? [[String(name), tensor]] : []
    ),
  );
}

const same = (a: TensorData | undefined, b: TensorData) =>
  a !== undefined && a.storage === b.storage && a.offset === b.offset && a.numel === b.numel;
