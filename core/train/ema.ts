// An exponential moving average of the weights, evaluated and saved beside them. May import ffi, arena.
import { constant } from "../../ffi/make.ts";
import { clone, copy_, lerp_ } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import type { Arena } from "./arena.ts";

export interface Ema {
  /** The averages, laid out as the arena. */
  readonly average: Tensor;
  update(): void;
  /** Exchanges trained and averaged weights: once before an evaluation, once after. */
  swap(): void;
  /** Begins again from the weights of now. */
  reset(): void;
}

export function createEma(arena: Arena, decay: number): Ema {
  const average = keep(scope(() => clone(arena.flat)));
  const weight = constant(1 - decay, "f32", arena.flat.device);
  return {
    average,
    update: () => void lerp_(average, arena.flat, weight),
    swap: () =>
      scope(() => {
        const trained = clone(arena.flat);
        copy_(arena.flat, average);
        copy_(average, trained);
      }),
    reset: () => void copy_(average, arena.flat),
  };
}
