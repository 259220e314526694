// Finds the parameters of a model's head, which --new-head does not take from a file.
import { UserError } from "../base/errors.ts";
import { checkPatterns } from "../base/patterns.ts";
import { isAdapter } from "../checkpoint/adapters.ts";
import type { Config } from "../settings/settings.ts";
import type { Model } from "./model.ts";
import { isExported } from "./exported/model.ts";
import { isCode } from "./user/file.ts";

/** The output layer shares gpt's embedding of tokens: another vocabulary needs both. */
const SHARED: Readonly<Record<string, readonly string[]>> = { gpt: ["transformer.wte", "lm_head"] };

/** The patterns that the settings give, or the last layer of a model of ours. */
export function headOf(model: Model, { training, model: { name } }: Config): readonly string[] {
  if (training.new_head !== "auto" && training.new_head !== "") {
    const patterns = training.new_head.split(",").map((pattern) => pattern.trim());
    checkPatterns("--new-head", patterns, model.root.stateDict().map(([name]) => name));
    return patterns;
  }
  if (isCode(name) || isExported(name)) {
    throw new UserError(
      "usage",
      `--new-head can't know the head of ${name}: name it, as in --new-head=${lastLayer(model)}.`,
    );
  }
  return SHARED[name] ?? [lastLayer(model)];
}

/** Models of ours register their last layer last. */
const lastLayer = ({ root }: Model): string => {
  const last = root.namedParameters().filter(([name]) => !isAdapter(name)).at(-1)![0];
  return last.slice(0, Math.max(0, last.lastIndexOf("."))) || last;
};
