// Patches of maps to train with: keyed places, targets and finer targets at the same ones, around the globe and
// away from land, from memory and from files.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { key, uniform } from "../../../../core/base/random.ts";
import { UserError } from "../../../../core/base/errors.ts";
import { loadDataReader, openData } from "../../../../core/data/open/open.ts";
import { batchOf, plainPart, type Source } from "../../../../core/data/source/source.ts";
import { PLACES } from "../../../../core/data/source/geometry.ts";
import type { Config } from "../../../../core/settings/settings.ts";
import { toNumbers } from "../../../../ffi/make.ts";
import { scope } from "../../../../ffi/tensor.ts";
import { useLibtorch } from "../../../libtorch.ts";
import { inFolder, python } from "../../checkpoint/python.ts";
import { range, settings } from "../tables/help.ts";
import { assertSentence } from "../../../sentences.ts";

useLibtorch();

const SEED = settings({}).training.seed, HEIGHT = 6, WIDTH = 9, CORNER = 3;

/** Each pixel is its own number; `y` is there in a corner alone, `z` is twice as fine, `k` has classes there. */
const DATA = `
import sys, numpy as np
x = np.arange(5 * 2 * 6 * 9, dtype="f4").reshape(5, 2, 6, 9)
y = x[:, :1].copy(); y[:, :, 3:] = np.nan; y[:, :, :, 3:] = np.nan
z = np.arange(5 * 12 * 18, dtype="f4").reshape(5, 1, 12, 18) + 0.5
k = np.where(np.isnan(y[:, 0]), -100, 1).astype("i4"); k[:, 0, 0] = 0
np.savez(sys.argv[1] + "/maps.npz", x=x, y=y, z=z, k=k, n=np.arange(5, dtype="f4") + 0.5)
print("null")
`;

async function open(folder: string, data: Partial<Config["data"]>, padding: "zeros" | "longitude" = "zeros") {
  const config = settings({
    data: {
      data_path: `${folder}/maps.npz`,
      features: ["x"],
      val_samples: 1,
      validation_split: 0.2,
      patch: "4x5",
      ...data,
    },
    model: { name: "unet", padding },
  });
  if (data.targets?.[0] !== "k") config.training.loss = "mse";
  await loadDataReader(config.data);
  return openData(config.data, config.training, config.model);
}

const values = (source: Source, ids: number[], epoch = 0) =>
  scope(() => {
    const { input, target } = batchOf(source, plainPart(ids, epoch));
    return { input: [...toNumbers(input)], target: [...toNumbers(target)] };
  });

/** The places of a sample's patch, in the order in which they are tried. */
function places(id: number, epoch: number, around: boolean): [number, number][] {
  const at = uniform(key(SEED, "augment", epoch));
  return range(0, PLACES).map((attempt) => {
    const draw = (k: number) => at(16 * id + (attempt === 0 ? k : 5 + 2 * (attempt - 1) + k));
    return [Math.floor(draw(0) * (HEIGHT - 4 + 1)), Math.floor(draw(1) * (around ? WIDTH : WIDTH - 5 + 1))];
  });
}

const window = (top: number, left: number, k = 1) =>
  range(0, 4 * k).flatMap((row) =>
    range(0, 5 * k).map((column) => (k * top + row) * k * WIDTH + (k * left + column) % (k * WIDTH))
  );

Deno.test(
  "a sample's patch is where its key says, in memory and streamed, around the globe and in finer targets; other samples stay whole",
  inFolder(async (folder) => {
    python(DATA, folder);
    for (const around of [false, true]) {
      for (const in_memory of ["yes", "no"] as const) {
        const { train, val, whole } = await open(
          folder,
          { targets: ["z"], in_memory, patches_per_sample: 3 },
          around ? "longitude" : "zeros",
        );
        assertEquals(whole, [2, HEIGHT, WIDTH]);
        assertEquals([train.length, train.input.shape, train.target.shape], [12, [2, 4, 5], [1, 8, 10]]);
        assertEquals([val!.length, val!.input.shape, val!.target.shape], [1, [2, 6, 9], [1, 12, 18]]);
        assertEquals(train.facts.input.shape, [2, 4, 5]);
        assertEquals([...train.indices!].slice(0, 4), [...train.indices!].slice(4, 8));
        for (const epoch of [0, 1]) {
          const ids = [0, 5, 11, 2], seen = values(train, ids, epoch);
          const expected = ids.map((id) => ({
            sample: train.indices![id],
            place: places(id, epoch, around)[0],
          }));
          assertEquals(
            seen.input,
            expected.flatMap(({ sample, place }) =>
              [0, 1].flatMap((c) => window(...place).map((at) => (2 * sample + c) * HEIGHT * WIDTH + at))
            ),
          );
          assertEquals(
            seen.target,
            expected.flatMap(({ sample, place }) =>
              window(...place, 2).map((at) => sample * 4 * HEIGHT * WIDTH + at + 0.5)
            ),
          );
        }
      }
    }
  }),
);

Deno.test(
  "a patch without a known point of its target is tried elsewhere; where none has one, it counts nowhere",
  inFolder(async (folder) => {
    python(DATA, folder);
    for (const target of ["y", "k"]) {
      for (const in_memory of ["yes", "no"] as const) {
        const { train } = await open(folder, {
          targets: [target],
          in_memory,
          patch: "2",
          patches_per_sample: 20,
        });
        const at = uniform(key(SEED, "augment", 0));
        const known = (top: number, left: number) => top < CORNER && left < CORNER;
        let first = 0, later = 0, nowhere = 0;
        for (let id = 0; id < train.length; id++) {
          const tried = range(0, PLACES).map((attempt): [number, number] => {
            const draw = (k: number) => at(16 * id + (attempt === 0 ? k : 5 + 2 * (attempt - 1) + k));
            return [Math.floor(draw(0) * (HEIGHT - 1)), Math.floor(draw(1) * (WIDTH - 1))];
          });
          const good = tried.findIndex((place) => known(...place));
          if (good === 0) first++;
          else if (good > 0) later++;
          else nowhere++;
          const [top, left] = tried[Math.max(0, good)];
          const { input, target } = values(train, [id]);
          assertEquals(input[0], 2 * train.indices![id] * HEIGHT * WIDTH + top * WIDTH + left);
          assertEquals(target.some((value) => value === value && value >= 0), good >= 0);
        }
        assert(first > 0 && later > first && nowhere > 0, `${first} ${later} ${nowhere}`);
      }
    }
  }),
);

Deno.test(
  "patches that maps are too small for, other crops, and targets that are no maps are refused",
  inFolder(async (folder) => {
    python(DATA, folder);
    const refused = async (data: Partial<Config["data"]>) => {
      try {
        await open(folder, data);
      } catch (error) {
        assert(error instanceof UserError, String(error));
        return error.message;
      }
      throw new Error("it was taken");
    };
    assertSentence(
      "core/data/source/patches: smaller patch take",
      await refused({ targets: ["y"], patch: "8" }),
    );
    assertMatch(await refused({ targets: ["y"], random_crop: 4 }), /--random-crop 4 changes those/);
    assertMatch(await refused({ targets: ["n"] }), /--patch is for maps with an answer for each pixel/);
  }),
);
