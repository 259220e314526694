// The registry of operators of the libtorch that is loaded.
import { LibraryError } from "./errors.ts";
import { openedLibtorch } from "./library.ts";

// std::string: address, length, and 16 bytes of its own. c10::OperatorName: two of them.
const STRING_WORDS = 4;
const word = { struct: ["u64", "u64", "u64", "u64"] } as const;

const symbols = {
  dispatcher: {
    name: "_ZN3c1010Dispatcher13realSingletonEv",
    parameters: [],
    result: "pointer",
    optional: true,
  },
  /** Gives std::optional<OperatorHandle>: the operator's entry, its place in a list, and whether there is one. */
  findSchema: {
    name: "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE",
    parameters: ["pointer", "buffer"],
    result: { struct: ["u64", "u64", "u64"] },
    optional: true,
  },
  /** Gives a std::string that tells of the entry, its schema in the second line. */
  dumpState: {
    name: "_ZNK3c104impl13OperatorEntry9dumpStateB5cxx11Ev",
    parameters: ["u64"],
    result: word,
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

let registry: Deno.DynamicLibrary<typeof symbols>["symbols"] | undefined;
let freeing: ((address: bigint) => void) | undefined;

function open() {
  const { dir, versionText } = openedLibtorch();
  registry ??= Deno.dlopen(`${dir}/libtorch_cpu.so`, symbols).symbols;
  freeing ??= Deno.dlopen("libstdc++.so.6", {
    operatorDelete: { name: "_ZdlPv", parameters: ["u64"], result: "void" },
  }).symbols.operatorDelete;
  const { dispatcher, findSchema, dumpState } = registry;
  if (!dispatcher || !findSchema || !dumpState) {
    throw new LibraryError(
      `libtorch ${versionText} in ${dir} lacks a symbol needed to look up operators for exported programs. ` +
        "Choose another libtorch with --libtorch DIR, or run: hpctrain libtorch install.",
    );
  }
  return { dispatcher, findSchema, dumpState, free: freeing };
}

/** "aten::relu(Tensor self) -> Tensor", or null. Seen right on libtorch 2.10.0 and 2.15.0. */
export function schemaText(name: string, overload: string): string | null {
  const { dispatcher, findSchema, dumpState, free } = open();
  const key = new BigUint64Array(new ArrayBuffer(2 * STRING_WORDS * 8));
  const held = [name, overload].map((text, i) => {
    const bytes = new TextEncoder().encode(text + "\0");
    key[i * STRING_WORDS] = Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes));
    key[i * STRING_WORDS + 1] = key[i * STRING_WORDS + 2] = BigInt(bytes.length - 1);
    return bytes; // must live until the call is over
  });
  const handle = words(findSchema(dispatcher(), new Uint8Array(key.buffer)));
  if (held.length !== 2 || (handle[2] & 0xffn) === 0n) return null;
  const [address] = words(dumpState(handle[0]));
  const told = new Deno.UnsafePointerView(Deno.UnsafePointer.create(address)!).getCString();
  free(address);
  const line = told.split("\n").find((text) => text.startsWith("schema: "));
  return line?.slice("schema: ".length).includes("(") ? line.slice("schema: ".length) : null;
}

function words(bytes: Uint8Array): BigUint64Array {
  return new BigUint64Array(bytes.slice().buffer);
}
