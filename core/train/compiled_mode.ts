// Settings say whether steps are compiled, and which way; some models and settings can't be.
import type { Tensor } from "../../ffi/tensor.ts";
import { machineIsa, noIsa } from "../compile/x86/isa.ts";
import { isCode } from "../models/user/file.ts";
import type { Config } from "../settings/settings.ts";
import { inParts, type Pass } from "./blocks.ts";
import type { Mode } from "./compiled_plans.ts";
import type { TrainedParameters } from "./trained_parameters.ts";

/** The way that these settings ask for on this device, or null. */
export function compiledMode({ compile, deterministic }: Config["training"], onGpu: boolean): Mode | null {
  if (compile === "off") return null;
  if (onGpu) return compile === "exact" || deterministic === "world" ? null : "fast"; // else steps are captured as they are
  if (compile === "auto") return null;
  return compile === "on" ? deterministic === "off" ? "fast" : "exact" : compile;
}

/** Models and losses of ours and exported programs are the same in each step; a user's code may count its calls. */
export const keepsNothing = ({ model, training }: Config): boolean =>
  !isCode(model.name) && !isCode(training.loss);

/** The reason why no step of this run can be compiled, or null. */
export function whyNotCompiled(
  { pass, trained }: { readonly pass: Pass; readonly trained: Pick<TrainedParameters, "waiting"> },
  mode: Mode,
  syncNorms: boolean,
): string | null {
  if (trained.waiting.size > 0) return "--freeze-until trains other parameters in later epochs";
  if (pass.cast !== null && mode === "exact") {
    return "--amp computes in half precision, whose bits are libtorch's own (--compile=fast rounds as it does)";
  }
  if (pass.onGpu && syncNorms) return "--sync-bn gathers statistics in the middle of them";
  if (pass.onGpu) return null;
  if (machineIsa() === null) return noIsa();
  return null;
}

export const HEAD_IN_PARTS =
  "the head computes its logits in parts (--set training.logits_mib=0 computes them whole)";

/** A plan's logits are whole: on a GPU in half precision and in the place of their gradient, on a CPU as f32. */
export const onHostInParts = (p: Pass, target: Tensor): boolean => !p.onGpu && inParts(p, target);
