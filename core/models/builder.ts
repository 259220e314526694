// How a model of the zoo is built from the settings and the facts of the data, whose sizes must agree.
import { UserError } from "../base/errors.ts";
import type { Config } from "../settings/settings.ts";
import type { Facts, Model } from "./model.ts";

/** @internal */
export type Settings = Config["model"];
export type Build = (settings: Settings, facts: Facts, outputs: number) => Model;

/** A negative dropout stands for the model's own. */
export const ownDropout = ({ dropout }: Settings) => dropout < 0 ? undefined : dropout;

/** A setting of 0 takes the data's size, any other must equal it. */
export function sized(key: string, setting: number, found: number, what: string): number {
  if (setting !== 0 && setting !== found) {
    throw new UserError(
      "usage",
      `model.${key} is ${setting}, but the data has ${found} ${what}: set model.${key} to ${found}, ` +
        "or leave it out.",
    );
  }
  return found;
}

/** A setting of 0 takes the data's size, any other must be as large. */
export function atLeast(key: string, setting: number, found: number, what: string): number {
  if (setting !== 0 && setting < found) {
    throw new UserError(
      "usage",
      `model.${key} is ${setting}, but the data has ${found} ${what}: set model.${key} to ${found} or more, ` +
        "or leave it out.",
    );
  }
  return setting || found;
}

export function imageSizes(
  settings: { name: string; channels: number; image_size: number },
  facts: Facts,
): { channels: number; height: number; width: number } {
  const shape = facts.input.shape;
  if (shape.length !== 3) refuseData(settings.name, facts, "images [channels, height, width]");
  const [channels, height, width] = shape;
  sized("channels", settings.channels, channels, "channels");
  for (const side of [height, width]) sized("image_size", settings.image_size, side, "pixels a side");
  return { channels, height, width };
}

/** Maps, or volumes of three dimensions. */
export function mapSizes(settings: Settings, facts: Facts): { channels: number; sides: readonly number[] } {
  const [channels, ...sides] = facts.input.shape;
  if (sides.length !== 3) {
    const { channels, height, width } = imageSizes(settings, facts);
    return { channels, sides: [height, width] };
  }
  sized("channels", settings.channels, channels, "channels");
  for (const side of sides) sized("image_size", settings.image_size, side, "points a side");
  return { channels, sides };
}

/** Attention has so many where model.heads is 0. */
export const HEADS = 4;

export function attentionSizes(settings: { embed: number; heads: number }): { embed: number; heads: number } {
  const embed = settings.embed || 128, heads = settings.heads || HEADS;
  if (embed % heads !== 0) {
    throw new UserError(
      "usage",
      `model.embed ${embed} can't be shared by ${heads} heads: set --embed to a multiple of --heads, ` +
        `e.g. ${Math.ceil(embed / heads) * heads}.`,
    );
  }
  return { embed, heads };
}

export function refuseData(name: string, facts: Facts, wanted: string): never {
  throw new UserError(
    "usage",
    `the model ${name} needs ${wanted}, but this data is for ${facts.task} ` +
      `with samples of shape [${facts.input.shape.join(", ")}]: choose another --model or other data.`,
  );
}
