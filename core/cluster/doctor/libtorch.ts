// Which libtorch a run here would take, why the others were not, and whether it can be loaded and computes. May import
// ffi, line.
import { findLibtorch } from "../../../ffi/libraries/find.ts";
import type { Found } from "../../../ffi/libraries/types.ts";
import { openLibtorch } from "../../../ffi/library.ts";
import { ones, toNumbers } from "../../../ffi/make.ts";
import { matmul } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { bad, good, type Line } from "./line.ts";

export interface LibtorchFacts extends Found {
  /** Why the chosen one can't be loaded or does not compute; null when it does, or none was chosen. */
  readonly broken: string | null;
}

export function gatherLibtorch(explicit: string): LibtorchFacts {
  const found = findLibtorch({ explicit: explicit || undefined, all: true });
  return { ...found, broken: found.chosen && whyBroken(found.chosen) };
}

const SIDE = 64;

function whyBroken(chosen: NonNullable<Found["chosen"]>): string | null {
  try {
    openLibtorch(chosen);
    const [sum] = scope(() => toNumbers(matmul(ones([1, SIDE]), ones([SIDE, 1]))));
    return sum === SIDE ? null : `a sum of ${SIDE} ones comes to ${sum}`;
  } catch (error) {
    return (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
  }
}

const NAME = "libtorch";
const GET =
  "Run `hpctrain libtorch install`, load your site's PyTorch module, or name one with --libtorch DIR";

export function judgeLibtorch({ chosen, usable, rejected, broken }: LibtorchFacts): Line[] {
  const reasons = rejected.map(({ dir, from, reason }) => `${dir} (${from}): ${reason}`);
  const passed = reasons.map((why) => good(NAME, `not used: ${why}`));
  if (chosen === null) {
    const [other] = usable;
    const fix = other
      ? `Unset what names it, and ${other.versionText} in ${other.dir} (${other.from}) is used.`
      : `${GET}.`;
    const what = reasons.length > 0
      ? `no usable one: ${reasons.join("; ")}`
      : "none was found on this machine";
    return [bad(NAME, what, fix)];
  }
  const which = `${chosen.versionText}${
    chosen.cuda ? " with CUDA" : " for CPUs"
  }, ${chosen.dir} (${chosen.from})`;
  if (broken !== null) return [bad(NAME, `${which} does not work: ${broken}`, `${GET}.`), ...passed];
  return [good(NAME, which), ...passed];
}
