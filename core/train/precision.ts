// Mixed precision: which type, and the dynamic loss scale of fp16.
import { cudaCapability } from "../../ffi/cuda.ts";
import { constant, fill_, scalar } from "../../ffi/make.ts";
import { checkAndUnscale_ } from "../../ffi/ops.ts";
import { type Device, keep, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import type { Arena } from "./gradients/arena.ts";
import { firstNonFinite } from "./gradients/norm.ts";

export type Amp = "bf16" | "fp16" | "off";

/** "auto": bf16 on a GPU that computes in it (compute capability 8.0), fp16 on an older one, off on a CPU. */
export function chooseAmp(wanted: "auto" | Amp, device: Device): Amp {
  if (wanted !== "auto") return wanted;
  if (device === "cpu") return "off";
  return cudaCapability() >= 8 ? "bf16" : "fp16";
}

/** @internal */
export interface ScaleSettings {
  init: number;
  growthInterval: number;
  min: number;
  maxSkipped: number;
}

/** torch.amp.GradScaler's rule (x2 after an interval without overflow, x0.5 at an overflow), with a floor and an end. */
export class LossScaler {
  /** The loss is multiplied by it. */
  scale: number;
  /** Steps since the scale was changed. */
  goodSteps = 0;
  /** Steps left out because a gradient was not finite. */
  skipped = 0;
  #skippedInARow = 0;
  readonly #settings: ScaleSettings;
  readonly #scaleTensor: Tensor;
  readonly #found: Tensor;

  /** `settings` are those of training.loss_scale; `device` is where the gradients are. */
  constructor(settings: ScaleSettings, device: Device) {
    this.#settings = settings;
    this.scale = settings.init;
    this.#scaleTensor = keep(scalar(settings.init, "f32", device));
    this.#found = keep(scalar(0, "f32", device));
  }

  /** Backward starts from it. */
  get gradient(): Tensor {
    return fill_(this.#scaleTensor, this.scale);
  }

  /** Divides the gradients by the scale; false when one is not finite, and the step must be left out. */
  unscale(arena: Arena): boolean {
    fill_(this.#found, 0);
    checkAndUnscale_(arena.memory, this.#found, constant(1 / this.scale, "f32", arena.flat.device));
    return this.#found.item() === 0;
  }

  /** Moves the scale after a step; says what happened when one was skipped. */
  update(finite: boolean, arena: Arena, step: number): string | null {
    if (finite) {
      this.#skippedInARow = 0;
      if (++this.goodSteps >= this.#settings.growthInterval) {
        this.goodSteps = 0;
        this.scale = Math.min(this.scale * 2, 2 ** 40);
      }
      return null;
    }
    this.goodSteps = 0;
    this.skipped++;
    if (++this.#skippedInARow >= this.#settings.maxSkipped) {
      throw new UserError(
        "numerics",
        `Gave up at step ${step}: ${this.#skippedInARow} steps in a row had a gradient that is not finite ` +
          `(loss scale ${this.scale}; first such tensor: ${
            firstNonFinite(arena)
          }). Try --amp bf16, a lower --lr, or --clip-norm 1.`,
      );
    }
    const before = this.scale;
    this.scale = Math.max(this.scale / 2, this.#settings.min);
    return `Step ${step} skipped: a gradient overflowed at loss scale ${before}; the scale is now ${this.scale}.`;
  }
}
