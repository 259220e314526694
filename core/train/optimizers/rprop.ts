// Rprop (Riedmiller and Braun 1993): each weight has a step of its own, which grows while its gradient keeps its sign. It is for
// gradients of all samples at once.
import { clamp_, copy_, gt, lt, mul, mul_, sign, where } from "../../../ffi/ops.ts";
import { addProduct_, elementwise, factor, numbersOn, openElementwise } from "./elementwise.ts";
import type { OptimizerKind } from "./optimizer.ts";

const SLOTS = ["prev", "step_size"];

export const rprop: OptimizerKind<"rprop"> = {
  traits: elementwise(
    SLOTS,
    undefined,
    ({ optimizer: { step_size_min: least, step_size_max: most } }) =>
      least <= most ? null : `step_size_min=${least}: it is above step_size_max, ${most}, so exchange them`,
  ),
  open({ etaminus, etaplus, step_size_min, step_size_max, maximize }, arena) {
    const number = numbersOn(arena);
    return openElementwise(arena, {
      ...{ type: "rprop", slots: SLOTS, maximize },
      options: { etas: [etaminus, etaplus], step_sizes: [step_size_min, step_size_max] },
      begin: (rate) => [0, rate],
      update() {
        const [none, one, less] = [number(0), number(1), factor(-1)];
        const [slower, faster, least, most] = [etaminus, etaplus, step_size_min, step_size_max].map(number);
        return (weights, gradient, before, size) => {
          const agreement = mul(gradient, before), turned = lt(agreement, none);
          const by = where(turned, slower, where(gt(agreement, none), faster, one));
          clamp_(mul_(size, by), least, most);
          const g = where(turned, none, gradient); // a weight that has gone too far waits for a step
          addProduct_(weights, sign(g), size, less);
          copy_(before, g);
        };
      },
    });
  },
};
