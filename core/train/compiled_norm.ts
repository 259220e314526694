// The gradient's norm in one call, with the bits of gradientNorm, which takes two calls for each parameter. The loop is written
// as that of the libtorch that is there; where none of the ways that are known has its bits, libtorch takes the norm.
import { loadCode, type MachineCode } from "../../ffi/machine_code.ts";
import { type Isa, machineIsa } from "../../ffi/machine.ts";
import { beginOf, tensor, toNumbers, zeros } from "../../ffi/make.ts";
import { clone, narrow, select } from "../../ffi/ops.ts";
import { keep, scope, type Tensor } from "../../ffi/tensor.ts";
import { uniform } from "../base/random.ts";
import { NORMS, type NormWay, normWays, printNorms, VECTORS } from "../compile/x86/norm.ts";
import { type Arena, normVectors, rowNorm } from "./arena.ts";

/** Null where libtorch takes it. */
export function compiledNorm(arena: Arena): (() => Tensor) | null {
  const vectors = normVectors(arena), isa = machineIsa();
  const way = vectors === null || isa === null ? null : wayOfLibtorch(isa);
  if (way === null) return null;
  const norms = keep(zeros([vectors!.length + 1])), total = keep(select(norms, 0, vectors!.length));
  const code = codeOf([...vectors!, narrow(norms, 0, 0, vectors!.length)], norms, isa!, way);
  return code && (() => {
    code.run();
    return clone(total);
  });
}

/** The norms of vectors, whose memory stays. */
function codeOf(vectors: readonly Tensor[], norms: Tensor, isa: Isa, way: NormWay): MachineCode | null {
  const code = loadCode(printNorms(vectors.length, isa, way));
  if ("refused" in code) return null;
  const table = vectors.flatMap((vector) => [beginOf(vector), BigInt(vector.numel)]);
  code.setSlot(VECTORS, tensor(BigInt64Array.from(table)));
  code.setSlot(NORMS, norms);
  return code;
}

/** The ways are tried on so many vectors of each length up to this, since a root hides most of what they differ in. */
const SHORT = 48, OF_EACH = 6;
/** And on some that are long. */
const LONG = [1000, 4097, 20_003, 65_536];

let known: readonly NormWay[] | undefined;

function wayOfLibtorch(isa: Isa): NormWay | null {
  known ??= waysOfLibtorch(isa);
  return known.length === 1 ? known[0] : null;
}

/** Those that agree with libtorch in all that is tried: one, or none. */
export function waysOfLibtorch(isa: Isa): readonly NormWay[] {
  return scope(() => {
    const draw = uniform(1n);
    const values = tensor(Float32Array.from({ length: Math.max(...LONG) }, (_, i) => draw(i) - 0.5));
    const short = Array.from({ length: SHORT * OF_EACH }, (_, i) => narrow(values, 0, i, 1 + i % SHORT));
    const vectors = [...short, ...LONG.map((length) => narrow(values, 0, 0, length))];
    const right = vectors.map((vector) => rowNorm(vector).item()).join();
    return normWays(isa).filter((way) => {
      const norms = zeros([vectors.length]), code = codeOf(vectors, norms, isa, way);
      code?.run();
      code?.free();
      return toNumbers(norms).join() === right;
    });
  });
}
