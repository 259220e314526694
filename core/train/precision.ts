// Mixed precision: which type, and the dynamic loss scale of fp16.
import { cudaCapability } from "../../ffi/cuda.ts";
import { fill_, scalar } from "../../ffi/make.ts";
import { checkAndUnscale_, clamp_, reciprocal, updateLossScale_ } from "../../ffi/ops.ts";
import { type Device, keep, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../base/errors.ts";
import { type Arena, firstNonFinite, textOfNonFinite } from "./arena.ts";

/** The types that steps compute in: fp64 is that of weights and data, too. */
export type Amp = "bf16" | "fp16" | "off" | "fp64";

/** "auto": bf16 on a GPU that computes in it (compute capability 8.0), fp16 on an older one, off on a CPU. */
export function chooseAmp(wanted: "auto" | Amp, device: Device, capability?: number): Amp {
  if (wanted !== "auto") return wanted;
  if (device === "cpu") return "off";
  return (capability ?? cudaCapability()) >= 8 ? "bf16" : "fp16";
}

const MOST_SCALE = 2 ** 40;

/** @internal */
export interface ScaleSettings {
  init: number;
  growthInterval: number;
  min: number;
  maxSkipped: number;
}

/**
 * torch.amp.GradScaler's rule (x2 after an interval without overflow, x0.5 at an overflow), with a floor and an
 * end. The scale that steps work with lives on the device, so that no step waits; the host follows when it has read
 * whether a step overflowed.
 */
export class LossScaler {
  /** Steps left out because a gradient was not finite. */
  skipped = 0;
  #scale: number;
  #goodSteps = 0;
  #skippedInARow = 0;
  readonly #settings: ScaleSettings;
  readonly #onDevice: {
    readonly scale: Tensor;
    readonly goodSteps: Tensor;
    readonly found: Tensor;
    readonly least: Tensor;
    readonly most: Tensor;
  };

  /** `settings` are those of training.loss_scale; `device` is where the gradients are. */
  constructor(settings: ScaleSettings, device: Device) {
    this.#settings = settings;
    this.#scale = settings.init;
    const of = (value: number) => keep(scalar(value, "f32", device));
    this.#onDevice = {
      scale: of(settings.init),
      goodSteps: keep(scalar(0, "i32", device)),
      found: of(0),
      least: of(settings.min),
      most: of(MOST_SCALE),
    };
  }

  /** The loss is multiplied by it. */
  get scale(): number {
    return this.#scale;
  }
  set scale(scale: number) {
    this.#scale = scale;
    fill_(this.#onDevice.scale, scale);
  }

  /** Steps since the scale was changed. */
  get goodSteps(): number {
    return this.#goodSteps;
  }
  set goodSteps(steps: number) {
    this.#goodSteps = steps;
    fill_(this.#onDevice.goodSteps, steps);
  }

  /** Backward starts from it. */
  get gradient(): Tensor {
    return this.#onDevice.scale;
  }

  /** Divides the gradients by the scale. The result is 1 where one is not finite, else 0, and is the scaler's own. */
  unscale(arena: Arena): Tensor {
    const { scale, found } = this.#onDevice;
    fill_(found, 0);
    checkAndUnscale_(arena.memory, found, reciprocal(scale));
    return found;
  }

  /** Moves the scale on the device, behind a step that found this. */
  queueUpdate(found: Tensor): void {
    const { scale, goodSteps, least, most } = this.#onDevice;
    updateLossScale_(scale, goodSteps, found, 2, 0.5, this.#settings.growthInterval);
    clamp_(scale, least, most);
  }

  /** Follows the device, when a step's finding is known; returns what happened where the step was left out. */
  follow(finite: boolean, arena: Arena, step: number): string | null {
    const { growthInterval, maxSkipped, min } = this.#settings;
    if (finite) {
      this.#skippedInARow = 0;
      if (++this.#goodSteps >= growthInterval) {
        this.#goodSteps = 0;
        this.#scale = Math.min(this.#scale * 2, MOST_SCALE);
      }
      return null;
    }
    this.#goodSteps = 0;
    this.skipped++;
    if (++this.#skippedInARow >= maxSkipped) {
      throw new UserError(
        "numerics",
        `Gave up at step ${step}: ${this.#skippedInARow} steps in a row had a gradient that is not finite ` +
          `(loss scale ${this.#scale}; first such tensor: ${
            textOfNonFinite(firstNonFinite(arena))
          }). Try --amp bf16, a lower --lr, or --clip-norm 1.`,
      );
    }
    const before = this.#scale;
    this.#scale = Math.max(this.#scale / 2, min);
    return `Step ${step} skipped: a gradient overflowed at loss scale ${before}; the scale is now ${this.#scale}.`;
  }
}
