// Schedule-free AdamW (Defazio et al. 2024): gradients are taken at y, between the fast weights z and their mean x. x is evaluated and
// saved as an average of the weights is, and takes the place of a falling learning rate.
import {
  add,
  constant,
  longLivedZeros,
  scalar,
  scale,
  sub,
  toNumbers,
  writeBytes,
  zeros,
} from "../../../ffi/make.ts";
import { clone, copy_, div, lerp_, sqrt, square } from "../../../ffi/ops.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import type { Arena } from "../gradients/arena.ts";
import type { Ema, Optimizer, OptimizerSettings } from "../optimizers.ts";

/** The weight of a step in the mean is the square of the highest learning rate so far. */
const POWER = 2;

export function scheduleFree(s: OptimizerSettings, arena: Arena): Optimizer & { readonly averages: Ema } {
  const { flat, gradient, names } = arena, { device } = flat;
  const { beta1, beta2, eps, weight_decay: decay } = s;
  const fast = keep(longLivedZeros(flat.shape, { device })),
    second = keep(longLivedZeros(flat.shape, { device }));
  const average = keep(scope(() => clone(flat)));
  const c = (value: number) => constant(value, "f32", device),
    n = (value: number) => scalar(value, "f32", device);
  // One number for all parameters: the sum of the weights of all steps, and the highest rate.
  const sums = keep(zeros([2], { dtype: "f64" }));
  let steps = 0, sum = 0, highest = 0, known = true;
  const remember = () => {
    [sum, highest] = toNumbers(sums);
    known = true;
  };
  return {
    type: "schedule_free",
    get steps() {
      return steps;
    },
    set steps(taken) {
      steps = taken;
      known = false; // a checkpoint is being read
    },
    slots: new Map([
      ["z", arena.viewsOf(fast)],
      ["exp_avg_sq", arena.viewsOf(second)],
      ["weights", names.map(() => sums)],
    ]),
    options: { betas: [beta1, beta2], eps, weight_decay: decay, r: 0, weight_lr_power: POWER },
    step(lr) {
      if (!known) remember();
      if (steps++ === 0) copy_(fast, flat);
      highest = Math.max(lr, highest);
      const weight = highest ** POWER;
      sum += weight;
      writeBytes(sums, new Uint8Array(Float64Array.of(sum, highest).buffer));
      const part = sum === 0 ? 0 : weight / sum;
      scope(() => {
        lerp_(second, square(gradient), c(1 - beta2));
        const roots = sqrt(div(second, n(1 - beta2 ** steps)));
        const scaled = div(gradient, add(roots, c(eps)));
        const direction = decay === 0 ? scaled : add(scaled, scale(flat, decay));
        lerp_(flat, fast, n(part));
        copy_(flat, sub(flat, direction, lr * (1 - beta1 * (1 - part))));
        copy_(fast, sub(fast, direction, lr));
      });
    },
    averages: {
      average,
      update() {
        copy_(average, flat);
        lerp_(average, fast, c(1 - 1 / beta1));
      },
      swap: () =>
        scope(() => {
          const trained = clone(flat);
          copy_(flat, average);
          copy_(average, trained);
        }),
      reset: () => void copy_(average, flat),
    },
  };
}
