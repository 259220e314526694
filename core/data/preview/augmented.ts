// Samples as training might see them: `hpctrain inspect DATA --augment LIST`.
import { UserError } from "../../base/errors.ts";
import { BadSample } from "../arrays/rows.ts";
import type { SampleNumbers } from "../arrays/numbers.ts";
import { everyStep, kindOf, listOf, shapeAfter } from "../augment/list.ts";
import { openSteps } from "../augment/run.ts";
import { drawsOf } from "../source/pipeline.ts";
import type { Raster } from "./picture.ts";
import { rowMajorStrides } from "./picture.ts";
import type { Pictures } from "./preview.ts";

const SHOWN = 16, SEED = 42;

/** Sixteen of them: of one sample, or of as many as there are, each with other draws where it comes again. */
export function augmentedPictures(pictures: Pictures, text: string, sample: number | null): Pictures {
  const list = listOf(text);
  if (!list) {
    throw new UserError(
      "usage",
      "--augment is empty: give transforms such as horizontal_flip, rotation(10).",
    );
  }
  const count = Math.min(SHOWN, pictures.count);
  const samples = sample === null
    ? pictures.some?.(count) ?? Array.from({ length: count }, (_, i) => i)
    : [sample];
  const of = (i: number) => samples[i % samples.length],
    again = (i: number) => Math.floor(i / samples.length);
  const draws = drawsOf(SEED);
  return {
    field: pictures.field,
    count: SHOWN,
    raster(i) {
      const raster = pictures.raster(of(i)), { isImage } = raster;
      const coloured = everyStep(list.steps).find((step) => /colours|both/.test(kindOf(step)?.acts ?? ""));
      if (!isImage && coloured) {
        throw new UserError(
          "usage",
          `--augment "${coloured.text}" changes colours, and ${pictures.field} has none: leave it out.`,
        );
      }
      const [channels, height, width] = raster.shape;
      const shape = shapeAfter(list.steps, [channels, height, width]);
      if (typeof shape === "string") throw new UserError("usage", `--augment: sample ${of(i)} ${shape}.`);
      const how = { steps: list.steps, target: false, ...roleOf(raster) };
      const data = numbersOf(raster), stored = { data, shape: raster.shape, strides: raster.strides };
      try {
        const seen = openSteps(how, shape)(stored, draws(of(i), again(i)));
        const values = new (data.constructor as new (length: number) => SampleNumbers)(
          shape[0] * shape[1] * shape[2],
        );
        seen.writeTo(values);
        return { ...raster, values, shape, strides: rowMajorStrides(shape) };
      } catch (error) {
        if (!(error instanceof BadSample)) throw error;
        throw new UserError("usage", `--augment: sample ${of(i)} ${error.reason}.`);
      }
    },
    ...(pictures.caption && { caption: (i: number) => pictures.caption!(of(i)) }),
  };
}

const roleOf = ({ isImage }: Raster) =>
  isImage ? { role: "picture", outside: null } as const : { role: "map", outside: NaN } as const;

/** Maps are drawn as floats: whole numbers have no missing point. */
const numbersOf = ({ values, isImage }: Raster): SampleNumbers =>
  isImage && ArrayBuffer.isView(values)
    ? values as unknown as SampleNumbers
    : values instanceof Float32Array
    ? values
    : Float32Array.from(values as ArrayLike<number>, Number);
