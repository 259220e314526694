// torch.optim.LBFGS keeps one state for all parameters, as the first one's, and its history as lists.
import { toNumbers } from "../../../ffi/make.ts";
import { narrow } from "../../../ffi/ops.ts";
import { scope } from "../../../ffi/tensor.ts";
import { type JointState, numberOf } from "../../checkpoint/optimizer_state.ts";
import { scalarData } from "../../checkpoint/training_state.ts";
import { field, TensorData, type Value } from "../../checkpoint/value.ts";

const COUNTS = ["func_evals", "n_iter"], LISTS = ["old_dirs", "old_stps"], VECTORS = ["d", "prev_flat_grad"];

export const joint: JointState = {
  entry({ slots, numbers: n = {} }, data) {
    const entry = new Map<string, Value>(COUNTS.map((name) => [name, n[name]]));
    if (n.n_iter === 0) return entry;
    const [kept] = slots.get("ro")!,
      ro = toNumbers(kept),
      number = (value: number) => scalarData(value, kept.dtype);
    const pairs = Array.from({ length: n.kept }, (_, i) => (n.oldest + i) % ro.length);
    for (const name of VECTORS) entry.set(name, data(slots.get(name)![0]));
    for (const name of LISTS) entry.set(name, pairs.map((at) => data(slots.get(name)![at])));
    return entry.set("ro", pairs.map((at) => number(ro[at])))
      .set("t", n.t).set("H_diag", number(n.H_diag)).set("prev_loss", n.prev_loss);
  },
  read(entry, { slots, numbers = {} }) {
    const counts = COUNTS.map((name) => numberOf(field(entry, name)));
    if (counts.some((count) => count === null)) return "func_evals or n_iter";
    const [func_evals, n_iter] = counts as number[];
    const begun = { func_evals, n_iter, kept: 0, oldest: 0 };
    if (n_iter === 0) return () => void Object.assign(numbers, begun);
    const size = slots.get("d")![0].numel;
    const fits = (data: Value | undefined): data is TensorData =>
      data instanceof TensorData && data.shape.length === 1 && data.numel === size;
    const vectors = VECTORS.map((name) => [name, field(entry, name)] as const);
    const lists = LISTS.map((name) => [name, field(entry, name)] as const), ro = field(entry, "ro");
    const values = ["t", "H_diag", "prev_loss"].map((name) => [name, numberOf(field(entry, name))] as const);
    const wrong = vectors.find(([, data]) => !fits(data))?.[0] ??
      values.find(([, value]) => value === null)?.[0] ??
      lists.find(([, list]) => !Array.isArray(list) || !list.every(fits))?.[0];
    if (wrong !== undefined) return wrong;
    const all = Array.isArray(ro) ? ro.map(numberOf) : [];
    const [dirs, steps] = lists.map(([, list]) => list as TensorData[]);
    if (dirs.length !== steps.length || all.length !== dirs.length || all.includes(null)) return "ro";
    const most = slots.get("old_dirs")!.length,
      kept = Math.min(most, dirs.length),
      first = dirs.length - kept;
    return (copy) => {
      Object.assign(numbers, begun, { kept }, Object.fromEntries(values));
      for (const [name, data] of vectors) copy(slots.get(name)![0], data as TensorData);
      for (let i = 0; i < kept; i++) {
        copy(slots.get("old_dirs")![i], dirs[first + i]);
        copy(slots.get("old_stps")![i], steps[first + i]);
        scope(() => copy(narrow(slots.get("ro")![0], 0, i, 1), scalarData(all[first + i]!, "f64")));
      }
    };
  },
};
