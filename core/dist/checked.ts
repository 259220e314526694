// Collectives that are compared before they begin, for `distributed.debug: detail`: ranks that come with different ones are
// told of by name, where they would wait for each other or add up what does not belong together.
import { tensor, toDevice, toNumbers, zeros } from "../../ffi/make.ts";
import { type Device, scope, type Tensor } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import { formatBytes } from "../format.ts";
import type { Collectives } from "./collectives.ts";
import { type CollectiveName, COLLECTIVES } from "./flight.ts";

const FIELDS = 3;

/** The same collectives, each after one more that compares: slow, and the host waits for each. */
export function checked(inner: Collectives, device: Device): Collectives {
  const { rank, world } = inner;
  const phases = new Map<number, string>();
  const here = (t: Tensor) => device === "cpu" ? t : toDevice(t, device);
  const compare = (name: CollectiveName, t: Tensor | null, phase: string): void => {
    const mine = [COLLECTIVES.indexOf(name), t ? bytesOf(t) : 0, hashOf(phase)];
    phases.set(mine[2], phase);
    const rows = scope(() => {
      const all = here(zeros([world * FIELDS], { dtype: "f64" }));
      inner.wait(inner.allGather(all, here(tensor(Float64Array.from(mine))), "what ranks are about to do"));
      return toNumbers(all);
    });
    for (let other = 0; other < world; other++) {
      const theirs = [...rows].slice(other * FIELDS, (other + 1) * FIELDS);
      if (theirs.every((value, i) => value === mine[i])) continue;
      throw new UserError(
        "communication",
        `Ranks are not at the same place of the program: rank ${rank} comes with ${
          said(mine)
        }, and rank ${other} with ${said(theirs)}. Their programs, data or settings differ.`,
      );
    }
  };
  const said = ([op, bytes, phase]: number[]) =>
    `${COLLECTIVES[op] ?? "an unknown collective"} of ${formatBytes(bytes)} (${
      phases.get(phase) ?? "another phase"
    })`;
  const { split, shared } = inner;
  return {
    ...inner,
    allReduce(t, op, phase) {
      compare("all-reduce", t, phase);
      return inner.allReduce(t, op, phase);
    },
    broadcast(t, root, phase) {
      compare("broadcast", t, phase);
      return inner.broadcast(t, root, phase);
    },
    allGather(into, own, phase) {
      compare("all-gather", own, phase);
      return inner.allGather(into, own, phase);
    },
    reduceScatter(own, from, phase) {
      compare("reduce-scatter", own, phase);
      return inner.reduceScatter(own, from, phase);
    },
    barrier(phase) {
      compare("barrier", null, phase);
      return inner.barrier(phase);
    },
    ...(split ? { split: (part: number, phase: string) => split.call(inner, part, phase) } : {}),
    ...(shared ? { shared: (elements: number) => shared.call(inner, elements) } : {}),
  };
}

const bytesOf = (t: Tensor): number => t.byteLength;

/** 53 bits hold it whole. */
function hashOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) >>> 0;
  return hash;
}
