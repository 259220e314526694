// The recipes that are embedded in the executable: what a known training script sets, with its source.
import { UserError } from "../base/errors.ts";
import { didYouMean, sameName } from "../base/suggest.ts";
import { type Assignment, Mistakes } from "./values.ts";
import { parseSettings } from "./yaml.ts";

export const RECIPE_NAMES = [
  ...["torchvision-resnet50-v1", "torchvision-resnet50-v2", "timm-a1", "timm-a2", "timm-a3", "deit-s", "mae"],
  ...["nanogpt-124m", "gpt2-muon", "unet-masks"],
] as const;

export interface Recipe {
  readonly name: string;
  readonly about: string;
  /** Its settings were published there. */
  readonly from: string;
  readonly assignments: readonly Assignment[];
  /** The text of its file. */
  readonly source: string;
}

export function loadRecipe(given: string): Recipe {
  const name = sameName(given, RECIPE_NAMES);
  if (name === undefined) {
    const hint = didYouMean(given, RECIPE_NAMES) || ` The recipes are ${RECIPE_NAMES.join(", ")}.`;
    throw new UserError("usage", `--recipe: unknown recipe "${given}".${hint}`);
  }
  const source = Deno.readTextFileSync(new URL(`../../presets/recipes/${name}.yaml`, import.meta.url));
  const mistakes = new Mistakes(),
    { assignments, extra } = parseSettings(source, `recipes/${name}.yaml`, mistakes);
  mistakes.refuse();
  return {
    ...{ name, source, about: String(extra.about()), from: String(extra.from()) },
    assignments: assignments.map(({ path, value }) => ({ path, value, origin: { kind: "recipe", name } })),
  };
}
