// All operations that the loaded libtorch's dispatcher knows, by name, from c10::Dispatcher::getAllOpNames. Test helper.
import { openedLibtorch } from "../../ffi/library.ts";

const symbols = {
  dispatcher: { name: "_ZN3c1010Dispatcher13realSingletonEv", parameters: [], result: "pointer" },
  /** Gives std::vector<c10::OperatorName>: where it begins, ends, and how far its memory goes. */
  names: {
    name: "_ZN3c1010Dispatcher13getAllOpNamesEv",
    parameters: ["pointer"],
    result: { struct: ["u64", "u64", "u64"] },
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** Of an OperatorName: two std::strings of 32 bytes, each of which begins with the address of its text. */
const BYTES_A_NAME = 64, OVERLOAD_AT = 32;

export interface Registered {
  readonly namespace: string;
  readonly name: string;
  readonly overload: string;
}

export function registered(): Registered[] {
  const library = Deno.dlopen(`${openedLibtorch().dir}/libtorch_cpu.so`, symbols);
  try {
    const [begin, end] = new BigUint64Array(
      library.symbols.names(library.symbols.dispatcher()).slice().buffer,
    );
    const count = Number(end - begin) / BYTES_A_NAME;
    const memory = new Deno.UnsafePointerView(Deno.UnsafePointer.create(begin)!);
    const text = (at: number) =>
      new Deno.UnsafePointerView(Deno.UnsafePointer.create(memory.getBigUint64(at))!).getCString();
    return Array.from({ length: count }, (_, i) => {
      const [namespace, name] = text(i * BYTES_A_NAME).split("::");
      return { namespace, name, overload: text(i * BYTES_A_NAME + OVERLOAD_AT) };
    });
  } finally {
    library.close();
  }
}
