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

/** Channels, height and width of the data's images, checked against the settings. */
export function imageSizes(
  settings: { name: string; channels: number; image_size: number },
  facts: Facts,
): { channels: number; height: number; width: number } {
  const shape = facts.input.shape;
  if (shape.length !== 3) refuse(settings.name, facts, "images [channels, height, width]");
  const [channels, height, width] = shape;
  sized("channels", settings.channels, channels, "channels");
  if (settings.image_size !== height || settings.image_size !== width) {
    sized(
      "image_size",
      settings.image_size,
      settings.image_size === height ? width : height,
      "pixels a side",
    );
  }
  return { channels, height, width };
}

/** The data is not of the kind the model is for. */
export function refuse(name: string, facts: Facts, wanted: string): never {
  throw new UserError(
    "usage",
    `the model ${name} needs ${wanted}, but this data is for ${facts.task} ` +
      `with samples of shape [${facts.input.shape.join(", ")}]: choose another --model or other data.`,
  );
}
