// Times each native op while somebody wants to know: the call itself is replaced for that long, and costs nothing before.
// May import abi.
import { native } from "./abi.ts";

/** Hears of each op: its name, beginning and end in milliseconds of `performance.now`. */
export type OpHearer = (name: string, from: number, to: number) => void;

/** Begins; what it gives ends it. On a GPU an op only queues its work: its time here is the host's. */
export function timeOps(hear: OpHearer): () => void {
  const { call, itemF64, addUnboxed } = native;
  const names = new Map<Deno.PointerValue, string>();
  const nameOf = (at: Deno.PointerValue): string => {
    const known = names.get(at);
    if (known !== undefined) return known;
    const name = at === null ? "?" : new Deno.UnsafePointerView(at).getCString().replace(/^aten::_?/, "");
    names.set(at, name);
    return name;
  };
  const timed =
    <A extends unknown[], R>(name: (args: A) => string, original: (...args: A) => R) => (...args: A): R => {
      const from = performance.now();
      const result = original(...args);
      hear(name(args), from, performance.now());
      return result;
    };
  native.call = timed(([name]) => nameOf(name), call);
  native.itemF64 = timed(() => "item", itemF64);
  if (addUnboxed) native.addUnboxed = timed(() => "add", addUnboxed);
  return () => Object.assign(native, { call, itemF64, addUnboxed });
}
