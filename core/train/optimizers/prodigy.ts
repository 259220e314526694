// Prodigy (Mishchenko and Defazio 2023): Adam that finds its learning rate by itself. d is a lower bound of the distance from the
// first weights to the best ones; it is measured over all weights at once, and grows.
import { noGrad } from "../../../ffi/autograd.ts";
import { add, sub } from "../../../ffi/make.ts";
import { abs, copy_, dot, mul_, reshape, sqrt, sum, view } from "../../../ffi/ops.ts";
import { keep, scope } from "../../../ffi/tensor.ts";
import { addProduct_, addQuotient_, descend_, factor, numbersOn, withDecay } from "./elementwise.ts";
import { type OptimizerKind, slotsOf, zerosAs } from "./optimizer.ts";

export const prodigy: OptimizerKind<"prodigy"> = {
  traits: {
    slots: ["exp_avg_sq", "s", "p0", "exp_avg"],
    wholeGradient: false,
    perElement: false,
    shardable: "which measures one distance over all weights",
    bytesPerWeight: ({ beta1 }) => beta1 > 0 ? 16 : 12,
    moves: true,
    compiled: null,
  },
  open(settings, arena) {
    const { parameters } = arena, number = numbersOn(arena);
    let { beta1, weight_decay } = settings;
    const { beta2, eps, decouple, use_bias_correction, safeguard_warmup } = settings;
    const { d0, d_coef } = settings, beta3 = settings.beta3 || Math.sqrt(beta2);
    const growth = settings.growth_rate || Infinity, coupled = () => decouple ? 0 : weight_decay;
    const vectors = Array.from({ length: beta1 > 0 ? 4 : 3 }, () => arena.viewsOf(zerosAs(arena)));
    // PyTorch's class keeps these two as vectors.
    for (const at of [1, 2]) vectors[at] = vectors[at].map((t) => keep(scope(() => view(t, [-1]))));
    const [squares, sums, starts, means] = vectors;
    const numbers = { d: d0, d_max: d0, d_numerator: 0 };

    /** Takes up the gradients, and gives the distance's new estimate as a fraction; its lower part is 0 where they all are. */
    function takeUp(dlr: number): { upper: number; lower: number } {
      const { d } = numbers, seen = d / d0;
      const kept = number(beta2),
        mean = number(beta1),
        keptSums = number(beta3),
        fresh = factor(d * d * (1 - beta2));
      let upper = 0, lower = 0;
      parameters.forEach((p, i) =>
        scope(() => {
          const g = withDecay(arena.gradients[i], p, coupled()), vector = reshape(g, [-1]);
          upper += seen * dlr * dot(vector, sub(starts[i], view(p, [-1]))).item();
          if (means) descend_(mul_(means[i], mean), g, -d * (1 - beta1));
          addProduct_(mul_(squares[i], kept), g, g, fresh);
          descend_(mul_(sums[i], keptSums), vector, -seen * (safeguard_warmup ? d : dlr));
          lower += sum(abs(sums[i])).item();
        })
      );
      return { upper, lower };
    }

    function grow(upper: number, lower: number): void {
      numbers.d_numerator = numbers.d_numerator * beta3 + upper;
      const estimate = d_coef * numbers.d_numerator / lower;
      const d = numbers.d === d0 ? Math.max(d0, estimate) : numbers.d;
      numbers.d_max = Math.max(numbers.d_max, estimate);
      numbers.d = Math.min(numbers.d_max, d * growth);
    }

    function take(dlr: number): void {
      const floor = number(numbers.d * eps), back = factor(means ? -dlr : -dlr * numbers.d);
      parameters.forEach((p, i) =>
        scope(() => {
          const direction = means?.[i] ?? withDecay(arena.gradients[i], p, coupled());
          const under = add(sqrt(squares[i]), floor);
          if (decouple && weight_decay !== 0) descend_(p, p, weight_decay * dlr);
          addQuotient_(p, direction, under, back);
        })
      );
    }

    return {
      type: "prodigy",
      steps: 0,
      slots: slotsOf(this.traits, ...vectors),
      numbers,
      get options() {
        const { d, d_max, d_numerator } = numbers;
        return {
          ...{
            betas: [settings.beta1, beta2],
            beta3: settings.beta3 || null,
            eps,
            weight_decay: settings.weight_decay,
            decouple,
            use_bias_correction,
          },
          ...{ safeguard_warmup, d0, d_coef, growth_rate: growth, fsdp_in_use: false, slice_p: 1 },
          ...{ d, d_max, d_numerator, k: this.steps },
        };
      },
      move({ momentum = settings.beta1, decay = 1 }) {
        beta1 = momentum;
        weight_decay = settings.weight_decay * decay;
      },
      step(lr) {
        if (lr === 0) return; // as PyTorch's class: nothing is learnt from such a step
        noGrad(() =>
          scope(() => {
            if (this.steps === 0) parameters.forEach((p, i) => scope(() => copy_(starts[i], view(p, [-1]))));
            const count = this.steps + 1, before = numbers.d;
            const correction = use_bias_correction ? Math.sqrt(1 - beta2 ** count) / (1 - beta1 ** count) : 1;
            const dlr = before * lr * correction, { upper, lower } = takeUp(dlr);
            if (lower === 0) return;
            grow(upper, lower);
            take(dlr);
            this.steps = count;
          })
        );
      },
    };
  },
};
