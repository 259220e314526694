// Steps as code of our own, as the compiler of steps.
import { partNames } from "../compile/program.ts";
import { openCompiledEvaluation } from "./compiled_evaluation.ts";
import { compiledNorm } from "./compiled_norm.ts";
import { openCompiledPass } from "./compiled_pass.ts";
import { examinePlan } from "./compiled_plans.ts";
import { compiledUpdate } from "./compiled_update.ts";
import { exactUpdate } from "./exact_update.ts";
import type { Compiler } from "./compiler.ts";

export const compiler: Compiler = {
  openPass: openCompiledPass,
  openEvaluation: openCompiledEvaluation,
  norm: compiledNorm,
  update: compiledUpdate,
  exactUpdate,
  examine(...asked) {
    const plan = examinePlan(...asked);
    if ("reason" in plan) return plan;
    const { placed: { parts, elements, unshared }, codeBytes, milliseconds } = plan;
    const calls = parts.filter(({ kernel }) => kernel === "call").length;
    return { parts: parts.map(partNames), calls, elements, unshared, codeBytes, milliseconds };
  },
};
