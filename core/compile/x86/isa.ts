// The widest instructions that this machine's processor has.
import { cpuFlags } from "../../../ffi/machine.ts";
import type { Isa } from "../kernel.ts";

const AVX2 = ["avx2", "fma"];
const AVX512 = [...AVX2, "avx512f", "avx512dq", "avx512vl"];

/**
 * Null where neither set is whole. libtorch's own ATEN_CPU_CAPABILITY ("avx2", "default") holds here too, so that
 * both compute with the same width.
 */
export function isaOf(flags: ReadonlySet<string>, capability: string | undefined): Isa | null {
  const has = (wanted: readonly string[]) => wanted.every((flag) => flags.has(flag));
  if (capability === "default" || !has(AVX2)) return null;
  return has(AVX512) && capability !== "avx2" ? "avx512" : "avx2";
}

export function machineIsa(): Isa | null {
  if (Deno.build.arch !== "x86_64" || Deno.build.os !== "linux") return null;
  return isaOf(cpuFlags(), Deno.env.get("ATEN_CPU_CAPABILITY")?.toLowerCase());
}

/** The reason, where machineIsa gives null. */
export const noIsa = (): string =>
  Deno.build.arch === "x86_64"
    ? "this processor has no AVX2"
    : `compiled steps are code for x86-64, and this processor is ${Deno.build.arch}`;
