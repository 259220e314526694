// Parameters live in one flat buffer, their gradients in another; each parameter and its .grad is a view.
// So clipping, averaging, saving and (later) reducing touch one big tensor. May import ffi.
import { noGrad, requireGrad, setGradSlot } from "../../ffi/autograd.ts";
import { zeros } from "../../ffi/make.ts";
import { copy_, detach, narrow, view } from "../../ffi/ops.ts";
import { type Device, keep, scope, type Tensor } from "../../ffi/tensor.ts";

export interface Arena {
  readonly names: readonly string[];
  readonly parameters: readonly Tensor[];
  readonly gradients: readonly Tensor[];
  readonly flat: Tensor;
  readonly gradient: Tensor;
  /** Views of another flat buffer at the same places: for optimizer state and averages. */
  viewsOf(flat: Tensor): Tensor[];
}

/** Every view begins on a multiple of 64 bytes, where vector code likes it. */
const ALIGN = 16;

/** Moves the parameters into an arena on `device`; modules keep their references. */
export function packParameters(named: Iterable<[string, Tensor]>, device: Device): Arena {
  const entries = [...named];
  const shapes = entries.map(([, p]) => p.shape);
  const counts = entries.map(([, p]) => p.numel);
  const starts: number[] = [];
  let total = 0;
  for (const count of counts) {
    starts.push(total);
    total += Math.ceil(count / ALIGN) * ALIGN;
  }
  const flat = keep(zeros([total], { device }));
  const gradient = keep(zeros([total], { device }));
  const viewsOf = (buffer: Tensor) =>
    shapes.map((shape, i) => scope(() => view(narrow(buffer, 0, starts[i], counts[i]), shape))).map(keep);
  const gradients = viewsOf(gradient);
  viewsOf(flat).forEach((place, i) => {
    const parameter = entries[i][1];
    noGrad(() => copy_(place, parameter));
    parameter.replaceWith(detach(place));
    place.free();
    setGradSlot(requireGrad(parameter), gradients[i]);
  });
  return {
    names: entries.map(([name]) => name),
    parameters: entries.map(([, p]) => p),
    gradients,
    flat,
    gradient,
    viewsOf,
  };
}
