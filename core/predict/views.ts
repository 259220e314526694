// Test-time augmentation: a model sees each sample several times, mirrored or cut out at other places, and its answers are
// averaged as those of an ensemble are.
import { flip, narrow } from "../../ffi/ops.ts";
import type { Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { round } from "../data/augment/sample.ts";
import { listed } from "../data/transforms/steps.ts";
import type { Source } from "../data/source/source.ts";
import type { EnsembleMember } from "../models/ensemble.ts";
import type { Config } from "../settings/settings.ts";

export const VIEWS = ["flips", "five_crop", "ten_crop"] as const;

export type Views = typeof VIEWS[number];

/** One way of looking at a batch; null is as it is. */
export type View = Pick<EnsembleMember, "input" | "output">;

const WIDTH = -1;
const mirrored = (x: Tensor): Tensor => flip(x, [WIDTH]);

/** `side` is that of the model's crops, out of larger squares. */
export function viewsOf(
  wanted: Views,
  { input: { shape }, target, facts, vectors, name }: Source,
  side: number,
): View[] {
  const refuse = (why: string) => new UserError("usage", `--tta ${wanted} ${why}: leave it out.`);
  if (shape.length !== 3) throw refuse(`mirrors pictures, and samples of ${name} are [${shape.join(", ")}]`);
  if (vectors) throw refuse(`mirrors maps, and --vectors of ${name} would point the wrong way`);
  const perPixel = facts.task === "segmentation" || target.shape.length === 3;
  if (wanted === "flips") {
    return [{ input: null }, { input: mirrored, ...(perPixel && { output: mirrored }) }];
  }
  if (perPixel) throw refuse(`cuts pictures, and ${name} has an answer for each pixel`);
  const [, height, width] = shape, down = height - side, across = width - side;
  const middle = [round(down / 2), round(across / 2)];
  const crops = [[0, 0], [0, across], [down, 0], [down, across], middle].map(([top, left]) => (x: Tensor) =>
    narrow(narrow(x, 2, top, side), 3, left, side)
  );
  return [
    ...crops.map((input): View => ({ input })),
    ...(wanted === "ten_crop" ? crops.map((cut): View => ({ input: (x) => cut(mirrored(x)) })) : []),
  ];
}

/** Evaluation keeps all of the resized square, out of which crops are cut; the side of the crops beside it. */
export function uncropped(
  wanted: Views,
  data: Config["data"],
): { readonly data: Config["data"]; readonly side: number } {
  const still = listed(data, []).still,
    size = (kind: string) => {
      const step = still.find((one) => one.kind === kind);
      return step ? step.options.size as readonly number[] : null;
    };
  const [resize] = size("resize") ?? [data.resize],
    [side, across = side] = size("centre_crop") ?? [data.centre_crop];
  if (resize > side && side > 0 && side === across) {
    return { data: { ...data, resize, centre_crop: resize }, side };
  }
  throw new UserError(
    "usage",
    `--tta ${wanted} cuts the model's squares out of larger ones, and evaluation here has none: give --resize above ` +
      "--centre-crop, such as --resize 256 --centre-crop 224, or take --tta flips.",
  );
}
