// Sizes that settings and data must agree on. May import core/errors, model (types).
import { UserError } from "../errors.ts";
import type { Facts } from "./model.ts";

/** The data's size; a setting of 0 takes it, any other must equal it. */
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

/** The data's size; a setting of 0 takes it, any other must be as large. */
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

/** Channels, height and width of the data's images, checked against the settings. */
export function imageSizes(
  settings: { name: string; channels: number; image_size: number },
  facts: Facts,
): { channels: number; height: number; width: number } {
  const shape = facts.input.shape;
  if (shape.length !== 3) refuse(settings.name, facts, "images [channels, height, width]");
  const [channels, height, width] = shape;
  sized("channels", settings.channels, channels, "channels");
  for (const side of [height, width]) sized("image_size", settings.image_size, side, "pixels a side");
  return { channels, height, width };
}

/** Width and heads of a transformer, small by default. */
export function attentionSizes(settings: { embed: number; heads: number }): { embed: number; heads: number } {
  const embed = settings.embed || 128, heads = settings.heads || 4;
  if (embed % heads !== 0) {
    throw new UserError(
      "usage",
      `model.embed ${embed} can't be shared by ${heads} heads: set model.embed to a multiple of model.heads, ` +
        `e.g. ${Math.ceil(embed / heads) * heads}.`,
    );
  }
  return { embed, heads };
}

/** The patch side of the settings; 0 takes the largest that leaves at least 16 patches. */
export function patchSize(setting: number, height: number, width: number): number {
  const divides = (side: number) => height % side === 0 && width % side === 0;
  const fitting = [16, 8, 4, 2, 1].filter(divides);
  if (setting === 0) return fitting.find((side) => height * width >= 16 * side * side) ?? 1;
  if (!divides(setting)) {
    throw new UserError(
      "usage",
      `model.patch_size ${setting} doesn't divide images of ${height} x ${width}: ` +
        `set it to ${fitting.join(", ")}, or leave it out.`,
    );
  }
  return setting;
}

/** The data is not of the kind the model is for. */
export function refuse(name: string, facts: Facts, wanted: string): never {
  throw new UserError(
    "usage",
    `the model ${name} needs ${wanted}, but this data is for ${facts.task} ` +
      `with samples of shape [${facts.input.shape.join(", ")}]: choose another --model or other data.`,
  );
}
