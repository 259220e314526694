// Maps in patches: a model that learns from patches answers whole maps patch by patch. The patches overlap, and
// their answers are blended by smooth weights that sum to one at each point, so there are no seams.
import { opmathType } from "../../ffi/dtype.ts";
import { add, tensor, upcast, zeros } from "../../ffi/make.ts";
import { cat, copy_, mul, narrow } from "../../ffi/ops.ts";
import { describe, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Config } from "../settings/settings.ts";
import { type Facts, forward, type Model } from "./model.ts";

/**
 * The sides of the patches that a model sees, and how they lie on a map.
 * @internal
 */
export interface Patches {
  readonly height: number;
  readonly width: number;
  /** The map goes on from its last row, or column, to its first. */
  readonly wraps: readonly [rows: boolean, columns: boolean];
  /** Neighbours share at least this part of a side. */
  readonly overlap: number;
  /** About so many patches go through the model at once. */
  readonly atOnce: number;
}

export function patchesOf(
  { patch, patch_overlap: overlap }: Pick<Config["data"], "patch" | "patch_overlap">,
  padding: Config["model"]["padding"],
  atOnce: number,
): Patches | null {
  if (patch === "") return null;
  const [height, width = height] = patch.split("x").map(Number);
  const wraps = [padding === "circular", padding === "circular" || padding === "longitude"] as const;
  return { height, width, wraps, overlap, atOnce };
}

/** The model is made for patches of whole maps. */
export function ofPatches(facts: Facts, patches: Patches | null): Facts {
  if (patches === null) return facts;
  const [channels] = facts.input.shape;
  return { ...facts, input: { ...facts.input, shape: [channels, patches.height, patches.width] } };
}

/** A patch's opposite edge is not its neighbour, unless the patch is as long as the map. */
export function paddingInPatches(
  padding: Config["model"]["padding"],
  patches: Patches | null,
  [height, width]: readonly number[],
): Config["model"]["padding"] {
  if (patches === null || (padding !== "circular" && padding !== "longitude")) return padding;
  if (patches.width < width) return "replicate";
  return padding === "circular" && patches.height < height ? "longitude" : padding;
}

function checkPatches({ height, width }: Patches, sides: readonly number[], where: string): void {
  if (height <= sides[0] && width <= sides[1]) return;
  throw new UserError(
    "usage",
    `--patch ${height}x${width} is larger than the maps of ${where}, which have ${sides[0]} rows and ${
      sides[1]
    } columns: ` +
      `set --patch to ${Math.min(height, sides[0])}x${Math.min(width, sides[1])} or less, or leave it out.`,
  );
}

/** Where patches begin along one side: evenly, and so that the last one ends with a side that does not wrap. */
export function beginnings(side: number, patch: number, wraps: boolean, overlap: number): number[] {
  if (patch === side) return [0];
  const step = Math.max(1, Math.floor(patch * (1 - overlap)));
  const count = wraps ? Math.ceil(side / step) : Math.ceil((side - patch) / step) + 1;
  const span = wraps ? side / count : (side - patch) / (count - 1);
  return Array.from({ length: count }, (_, i) => Math.round(i * span));
}

/** Each patch's weights along one side: a sine's square, over the sum of all patches' there. */
export function weightsAlong(begins: readonly number[], patch: number, side: number): Float64Array[] {
  const bell = Float64Array.from({ length: patch }, (_, i) => Math.sin(Math.PI * (i + 0.5) / patch) ** 2);
  const sum = new Float64Array(side);
  for (const begin of begins) bell.forEach((weight, i) => sum[(begin + i) % side] += weight);
  return begins.map((begin) => bell.map((weight, i) => weight / sum[(begin + i) % side]));
}

/** A model of patches as one that answers whole maps. */
export const wholeMaps = (model: Model, patches: Patches | null): Model =>
  patches === null ? model : {
    ...model,
    blocks: [{
      name: "patches",
      module: model.root,
      forward: (maps) =>
        blended(patches, maps as Tensor, (x) => {
          const answer = forward(model, x);
          return Array.isArray(answer) ? answer[0] : answer as Tensor;
        }),
    }],
  };

/** `answer` is asked for patches alone, in the caller's scope. Outputs may be k times finer than inputs. */
export function blended(patches: Patches, maps: Tensor, answer: (patches: Tensor) => Tensor): Tensor {
  const { height, width, wraps, overlap, atOnce } = patches;
  const [samples, , ...sides] = maps.shape, sizes = [height, width];
  if (sides.length !== 2) {
    throw new UserError(
      "usage",
      `--patch cuts maps [samples, channels, rows, columns], and these are ${describe(maps)}.`,
    );
  }
  checkPatches(patches, sides, "this data");
  const begins = sides.map((side, d) => beginnings(side, sizes[d], wraps[d], overlap));
  if (begins.every(({ length }) => length === 1)) return answer(maps);
  const beyond = sides.map((side, d) => Math.max(0, begins[d].at(-1)! + sizes[d] - side));
  const wide = beyond.reduce(
    (t, more, d) => more > 0 ? cat([t, narrow(t, d + 2, 0, more)], d + 2) : t,
    maps,
  );
  const places = begins[0].flatMap((_, row) => begins[1].map((_, column) => [row, column]));
  const cutAt = (t: Tensor, [row, column]: readonly number[], k: number) =>
    narrow(narrow(t, 2, k * begins[0][row], k * height), 3, k * begins[1][column], k * width);
  const group = Math.max(1, Math.floor(atOnce / samples));
  let canvas: { readonly all: Tensor; readonly weights: Tensor[][]; readonly k: number } | null = null;
  for (let at = 0; at < places.length; at += group) {
    const some = places.slice(at, at + group);
    const answers = scope(() => {
      const cut = some.map((place) => cutAt(wide, place, 1));
      return answer(cut.length === 1 ? cut[0] : cat(cut, 0));
    });
    const { all, weights, k } = canvas ??= canvasFor(answers, samples, patches, sides, beyond, begins);
    some.forEach((place, i) =>
      scope(() => {
        const own = upcast(narrow(answers, 0, i * samples, samples)), piece = cutAt(all, place, k);
        const weighed = mul(mul(own, weights[0][place[0]]), weights[1][place[1]]);
        copy_(piece, add(piece, weighed));
      })
    );
    answers.free();
  }
  const { all, k } = canvas!;
  return sides.reduce((t, side, d) => {
    const own = narrow(t, d + 2, 0, k * side), more = k * beyond[d];
    if (more === 0) return own;
    const first = narrow(own, d + 2, 0, more);
    scope(() => copy_(first, add(first, narrow(t, d + 2, k * side, more))));
    return own;
  }, all);
}

/** Answers are added up here; what goes beyond the map is folded back in the end. */
function canvasFor(
  answers: Tensor,
  samples: number,
  { height, width }: Patches,
  sides: readonly number[],
  beyond: readonly number[],
  begins: readonly (readonly number[])[],
) {
  const { shape: [, channels, ...found], dtype, device } = answers, k = found[0] / height;
  if (found.length !== 2 || !Number.isInteger(k) || found[1] !== k * width) {
    throw new UserError(
      "usage",
      `--patch blends answers that are maps, and of patches of ${height} x ${width} the model gives ${
        describe(answers)
      }: ` +
        "choose a model that answers each pixel, such as --model unet, or leave --patch out.",
    );
  }
  const weights = begins.map((begin, d) =>
    weightsAlong(begin.map((at) => k * at), k * [height, width][d], k * sides[d]).map((row) =>
      tensor(Float64Array.from(row), d === 0 ? [row.length, 1] : [row.length], {
        dtype: opmathType(dtype),
        device,
      })
    )
  );
  const all = zeros([samples, channels, ...sides.map((side, d) => k * (side + beyond[d]))], {
    dtype: opmathType(dtype),
    device,
  });
  return { all, weights, k };
}
