// C++ functions that return an object write it where their caller says. On x86-64 their first argument says so, which is given
// like any other. On aarch64 a register of its own does, x8, and a call sets it where a struct of more than 16 bytes is
// declared as the result. That way works on both, and takes 5.2 us for an add on x86-64 where the other takes 2.4.
import { native } from "./abi.ts";
import type { mangledTorch } from "./library.ts";

/** The words of each function's object; room for more does no harm. */
const WORDS = { addUnboxed: 1, addBatchDim: 1, unwrapAtLevel: 3, popLevel: 64 } as const;
/** A struct of fewer is returned in two registers. */
const LEAST = 3;

type Name = keyof typeof WORDS;
type Returned = (...args: unknown[]) => Uint8Array<ArrayBuffer>;

/** The same functions as in `native`, which take the place of the result first; null where this libtorch has none. */
export function callsByStruct(library: string, functions: typeof mangledTorch): Pick<typeof native, Name> {
  const names = Object.keys(WORDS) as Name[];
  const wanted = names.map((key) => {
    const { name, parameters: [, ...parameters] } = functions[key];
    const struct = Array.from({ length: Math.max(LEAST, WORDS[key]) }, () => "u64" as const);
    return [key, { name, parameters, result: { struct }, optional: true as const }] as const;
  });
  const { symbols } = Deno.dlopen(library, Object.fromEntries(wanted));
  return Object.fromEntries(names.map((key) => {
    const call = symbols[key] as Returned | null;
    return [key, call && ((place: Place, ...args: unknown[]) => put(call(...args), place, 8 * WORDS[key]))];
  })) as unknown as Pick<typeof native, Name>;
}

type Place = bigint | ArrayBufferView<ArrayBuffer>;

/** Its bytes are the object: the functions above return none that has its own address in it. */
function put(object: Uint8Array<ArrayBuffer>, place: Place, bytes: number): void {
  if (typeof place === "bigint") native.copyFromBuffer(place, object, BigInt(bytes));
  else new Uint8Array(place.buffer, place.byteOffset, bytes).set(object.subarray(0, bytes));
}
