// Schedule-free AdamW (Defazio et al. 2024): gradients are taken at y, between the fast weights z and their mean x. x is evaluated and
// saved as an average of the weights is, and takes the place of a falling learning rate.
import { add, constant, scalar, scale, sub, toNumbers, writeBytes, zeros } from "../../../ffi/make.ts";
import { clone, copy_, div, lerp_, sqrt, square } from "../../../ffi/ops.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { exchange } from "../arena.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";

/** The weight of a step in the mean is the square of the highest learning rate so far. */
const POWER = 2;

export const scheduleFree: OptimizerKind<"schedule_free"> = {
  traits: {
    slots: ["z", "exp_avg_sq", "weights"],
    wholeGradient: true,
    perElement: false,
    shardable: "whose averages need all of its state on each rank",
    bytesPerWeight: () => 12, // with the average that is evaluated
    compiled: null,
    refuses({ optimizer, scheduler, ema, swa_start }) {
      return scheduler.type !== "constant"
        ? `--scheduler ${scheduler.type}: its average takes the place of a schedule, so give --scheduler constant (a --warmup is good)`
        : ema > 0
        ? `--ema ${ema}: it evaluates an average of its own, so leave --ema out`
        : swa_start > 0
        ? `--swa-start ${swa_start}: it evaluates an average of its own, so leave --swa-start out`
        : optimizer.beta1 === 0
        ? "beta1=0: gradients are taken between its weights and their average, by beta1, so give one above 0"
        : null;
    },
  },
  open(s, arena) {
    const { flat, gradient, names } = arena, { dtype, device } = flat;
    const { beta1, beta2, eps, weight_decay: decay } = s;
    const fast = zerosAs(arena), second = zerosAs(arena);
    const average = keep(scope(() => clone(flat)));
    const c = (value: number) => constant(value, dtype, device),
      n = (value: number) => scalar(value, dtype, device);
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
      slots: slotsOf(this.traits, arena.viewsOf(fast), arena.viewsOf(second), names.map(() => sums)),
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
        swap: () => exchange(flat, average),
        reset: () => void copy_(average, flat),
      },
    };
  },
};
