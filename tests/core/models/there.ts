// Tests of models that can be taken out of the program. Test helper.
import { MODELS } from "../../../core/models/registry.ts";

export const isThere = (model: string): boolean => MODELS.includes(model);

/** A test of a model belongs to it. */
export function testOf(model: string, title: string, test: () => void | Promise<void>): void {
  if (isThere(model)) Deno.test(title, test);
}
