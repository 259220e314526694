// The classes of a file are numbered as those that the model was trained with.
import { tensor, toDevice } from "../../../ffi/make.ts";
import { indexSelect, toDtype } from "../../../ffi/ops.ts";
import type { Device, Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import type { Facts } from "../../models/model.ts";
import type { Source } from "./source.ts";

/**
 * The model's number for each class of the data, -1 for an unknown one; null where they are the same. Each
 * file numbers texts by itself.
 */
export function relabelled(data: readonly string[], model: readonly string[]): number[] | null {
  if (data.length === 0 || model.length === 0 || data.join("\n") === model.join("\n")) return null;
  return data.map((name) => model.indexOf(name));
}

/** The names of classes, in the order of their numbers. */
interface Classes {
  readonly task: Facts["task"];
  readonly names: readonly string[];
}

export function numberedAs(source: Source, { task, names }: Classes): Source {
  const own = source.names ?? [];
  const map = task === "classification" ? relabelled(own, names) : null;
  if (map === null) return source;
  const strange = own.filter((_, i) => map[i] < 0);
  if (strange.length > 0) {
    throw new UserError(
      "data",
      `${source.name} has ${strange.length === 1 ? "the class" : "classes"} ${
        shown(strange)
      }, which the run did not have ` +
        `(its classes: ${shown(names)}). Leave those samples out, or use hpctrain predict: it says -1 there.`,
    );
  }
  const numbers = toDtype(tensor(map), "i64");
  return withNumbers(source, numbers);
}

function withNumbers(source: Source, numbers: Tensor): Source {
  const onDevice = (device: Device) => device === "cpu" ? numbers : toDevice(numbers, device);
  return {
    ...source,
    finish: (raw, part) => {
      const { input, target } = source.finish(raw, part);
      return { input, target: indexSelect(onDevice(target.device), 0, target) };
    },
    host: source.host && withNumbers(source.host, numbers),
  };
}

const shown = (names: readonly string[]) =>
  names.slice(0, 10).join(", ") + (names.length > 10 ? `, and ${names.length - 10} more` : "");
