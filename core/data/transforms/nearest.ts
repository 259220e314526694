// --fill nearest is done where samples are read, behind crops and turns; a mask goes beside them.
import { borrowBytes, readBytes, uninitialised } from "../../../ffi/make.ts";
import { cat, narrow, toDtype } from "../../../ffi/ops.ts";
import { scope, type Tensor } from "../../../ffi/tensor.ts";
import { UserError } from "../../base/errors.ts";
import { openNearest } from "../source/nearest.ts";
import type { Field, Threaded } from "../source/reader.ts";
import { type Batch, type Ids, type Part, plainPart, readRows, type Source } from "../source/source.ts";

/** The last channel is no value. */
export const besideMask =
  (values: (x: Tensor, ids: Ids) => Tensor, channels: number) => (x: Tensor, ids: Ids): Tensor =>
    scope(() =>
      cat([values(narrow(x, 1, 0, channels), ids), narrow(x, 1, channels, x.shape[1] - channels)], 1)
    );

/** The raw rows are filled, so that statistics before it know nothing of it. */
export function filledByNearest(source: Source, mask: boolean): Source {
  const { threaded } = source, { shape, dtype } = storedFields(source).input;
  const refuse = (why: string) => new UserError("usage", `${source.name}: --fill nearest ${why}.`);
  if (shape.length < 3) throw refuse("looks for the nearest point of a map, and samples here are numbers");
  if (threaded?.reader.whole) throw refuse("is not for a reader of your own: fill them there");
  if (threaded && dtype !== "f32") throw refuse(`fills floats of 32 bits, and these are ${dtype}`);
  const nearest = { shape, mask };
  const wide = mask ? shape.with(0, shape[0] + 1) : shape;
  const input = { ...source.input, shape: wide };
  const whole = {
    ...source,
    input,
    facts: { ...source.facts, input: { ...source.facts.input, shape: wide } },
    bytewise: false,
  };
  if (threaded) {
    const now = { ...threaded, nearest, input: { ...threaded.input, shape: wide } };
    return { ...whole, threaded: now, ...readRows(now) };
  }
  const fill = openNearest(nearest);
  const raw = (part: Part): Batch =>
    scope(() => {
      const { input, target } = source.raw(part), rows = part.ids.length;
      const made = uninitialised([rows, ...wide]),
        into = new Float32Array(borrowBytes(made).buffer, borrowBytes(made).byteOffset, made.numel);
      const stored = toDtype(input, "f32"), from = new Float32Array(readBytes(stored).buffer);
      const [each, room] = [from.length / rows, into.length / rows];
      for (let row = 0; row < rows; row++) {
        const own = into.subarray(row * room, (row + 1) * room);
        own.set(from.subarray(row * each, (row + 1) * each));
        fill(own);
      }
      return { input: made, target };
    });
  return { ...whole, raw };
}

/** The fields of raw rows. */
export function storedFields(source: Source): Pick<Threaded, "input" | "target"> {
  if (source.threaded) return source.threaded;
  return scope(() => {
    const { input, target } = source.raw(plainPart([0]));
    const field = (of: Field, { shape, dtype }: Tensor) => ({ ...of, shape: shape.slice(1), dtype });
    return { input: field(source.input, input), target: field(source.target, target) };
  });
}
