// The gradient's norm in one call, with the bits of gradientNorm, which takes two calls for each parameter. The loop is written
// as that of the libtorch that is there; where none of the ways that are known has its bits, libtorch takes the norm.
import { loadCode, type MachineCode } from "../../ffi/machine_code.ts";
import { type Isa, machineIsa } from "../../ffi/machine.ts";
import { beginOf, tensor, toNumbers, zeros } from "../../ffi/make.ts";
import { detach, narrow, select } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { uniform } from "../base/random.ts";
import { NORMS, type NormWay, normWays, printNorms, VECTORS } from "../compile/x86/norm.ts";
import { type Arena, normVectors, rowNorm } from "./arena.ts";
import { runTimed } from "./compiled_update.ts";

/** Null where libtorch takes it. */
export function compiledNorm(arena: Arena): (() => Tensor) | null {
  const vectors = normVectors(arena), isa = machineIsa();
  const way = vectors === null || isa === null ? null : wayOfLibtorch(isa);
  if (way === null) return null;
  const norms = keep(zeros([vectors!.length + 1])), total = keep(select(norms, 0, vectors!.length));
  const code = codeOf([...vectors!, narrow(norms, 0, 0, vectors!.length)], norms, isa!, way);
  return code && (() => {
    runTimed("norm", code);
    return detach(total); // a host reads it before the next step
  });
}

/** The norms of vectors, whose memory stays. */
function codeOf(vectors: readonly Tensor[], norms: Tensor, isa: Isa, way: NormWay): MachineCode | null {
  const code = loadCode(printNorms(vectors.length, isa, way));
  if ("refused" in code) return null;
  const places = vectors.flatMap((vector) => [beginOf(vector), BigInt(vector.numel)]);
  const table = keep(tensor(BigInt64Array.from(places)));
  code.setSlot(VECTORS, table);
  code.setSlot(NORMS, norms);
  const free = () => {
    code.free();
    table.free();
  };
  return { ...code, free };
}

/** The ways are tried on so many vectors of each length up to this, since a root hides most of what they differ in. */
const SHORT = 48, OF_EACH = 6;
/** And on some that are long, in which so many numbers come again and again. */
const LONG = [1000, 4097, 20_003, 65_536], NUMBERS = 997;

let known: { readonly way: NormWay | null } | undefined;

function wayOfLibtorch(isa: Isa): NormWay | null {
  known ??= { way: normWays(isa).find(agreesInNorms(isa)) ?? null };
  return known.way;
}

/** Tells whether a way agrees with libtorch in all that is tried. */
export function agreesInNorms(isa: Isa): (way: NormWay) => boolean {
  const draw = uniform(1n), drawn = Float32Array.from({ length: NUMBERS }, (_, i) => draw(i) - 0.5);
  const again = new Float32Array(Math.max(...LONG));
  for (let at = 0; at < again.length; at += NUMBERS) again.set(drawn.subarray(0, again.length - at), at);
  const normsBy = (take: (vectors: readonly Tensor[]) => Iterable<number>): string =>
    scope(() => {
      const values = tensor(again);
      const short = Array.from({ length: SHORT * OF_EACH }, (_, i) => narrow(values, 0, i, 1 + i % SHORT));
      return [...take([...short, ...LONG.map((length) => narrow(values, 0, 0, length))])].join();
    });
  const right = normsBy((vectors) => vectors.map((vector) => rowNorm(vector).item()));
  return (way) =>
    normsBy((vectors) => {
      const norms = zeros([vectors.length]), code = codeOf(vectors, norms, isa, way);
      code?.run();
      code?.free();
      return toNumbers(norms);
    }) === right;
}
