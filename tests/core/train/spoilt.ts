// Plans that are wrong on purpose. Test helper.
import { RULES } from "../../../core/compile/lower/lower.ts";
import type { LoweringRule } from "../../../core/compile/lower/lowering.ts";

/** An op that is wrong in plans while `body` runs. */
export async function spoilt<R>(
  name: string,
  spoil: (right: LoweringRule) => LoweringRule,
  body: () => Promise<R>,
): Promise<R> {
  const rules = RULES as Record<string, LoweringRule>, right = rules[name];
  rules[name] = spoil(right);
  try {
    return await body();
  } finally {
    rules[name] = right;
  }
}
