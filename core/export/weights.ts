// The weights of a checkpoint as Python wants them: names and tensors, nothing else. May import core/checkpoint.
import { findStateDict } from "../checkpoint/state_dict.ts";
import { OrderedDict, TensorData, type Value } from "../checkpoint/value.ts";

export interface Weights {
  readonly tensors: Map<string, TensorData>;
  /** They are the averages that the run was judged by (--ema). */
  readonly averaged: boolean;
}

/** `raw` takes the weights as trained, whatever was averaged. */
export function weightsOf(root: Value, path: string, raw: boolean): Weights {
  const { tensors } = findStateDict(root, path);
  const averages = raw ? undefined : averagesIn(root);
  if (!averages) return { tensors, averaged: false };
  // Averages have a tied weight once, under its first name: its others are the same memory.
  const found = new Map<string, TensorData>();
  for (const [name, tensor] of tensors) {
    const own = averages.get(name);
    const tied = own ?? [...averages].find(([first]) => same(tensors.get(first), tensor))?.[1];
    found.set(name, tied ?? tensor);
  }
  return { tensors: found, averaged: true };
}

/** What torch.load(weights_only=True) reads and load_state_dict(strict=True) takes. */
export const stateDictOf = ({ tensors }: Weights): Value => new OrderedDict(tensors);

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
