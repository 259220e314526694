import { errorText, native } from "./abi.ts";
import { setAbiVersion } from "./aten.ts";
import { LibraryError } from "./errors.ts";
import { callsByStruct } from "./object_results.ts";
import type { Libtorch } from "./libraries/find.ts";
import { mainOf, preload, settleSpin } from "./preload.ts";

// cAbi is libtorch's C interface, stable by promise. Mangled C++ symbols are used only where the C interface
// has no verb, each with the versions it was checked on; all are optional.

export const cAbi = {
  abiVersion: { name: "aoti_torch_abi_version", parameters: [], result: "u64" },
  call: {
    name: "torch_call_dispatcher",
    parameters: ["pointer", "pointer", "pointer", "u64"],
    result: "i32",
  },
  newAbsent: { name: "aoti_torch_new_uninitialized_tensor", parameters: ["pointer"], result: "i32" },
  newHandle: { name: "aoti_torch_new_tensor_handle", parameters: ["u64", "pointer"], result: "i32" },
  deleteTensor: { name: "aoti_torch_delete_tensor_object", parameters: ["u64"], result: "i32" },
  newList: { name: "torch_new_list_reserve_size", parameters: ["u64", "pointer"], result: "i32" },
  pushList: { name: "torch_list_push_back", parameters: ["u64", "u64"], result: "i32" },
  listSize: { name: "torch_list_size", parameters: ["u64", "pointer"], result: "i32" },
  listItem: { name: "torch_list_get_item", parameters: ["u64", "u64", "pointer"], result: "i32" },
  deleteList: { name: "torch_delete_list", parameters: ["u64"], result: "i32" },
  newString: { name: "torch_new_string_handle", parameters: ["pointer", "u64", "pointer"], result: "i32" },
  dim: { name: "aoti_torch_get_dim", parameters: ["u64", "pointer"], result: "i32" },
  size: { name: "aoti_torch_get_size", parameters: ["u64", "i64", "pointer"], result: "i32" },
  stride: { name: "aoti_torch_get_stride", parameters: ["u64", "i64", "pointer"], result: "i32" },
  storageOffset: { name: "aoti_torch_get_storage_offset", parameters: ["u64", "pointer"], result: "i32" },
  numel: { name: "aoti_torch_get_numel", parameters: ["u64", "pointer"], result: "i32" },
  dtype: { name: "aoti_torch_get_dtype", parameters: ["u64", "pointer"], result: "i32" },
  deviceType: { name: "aoti_torch_get_device_type", parameters: ["u64", "pointer"], result: "i32" },
  deviceIndex: { name: "aoti_torch_get_device_index", parameters: ["u64", "pointer"], result: "i32" },
  isContiguous: { name: "aoti_torch_is_contiguous", parameters: ["u64", "pointer"], result: "i32" },
  fromMemory: {
    name: "aoti_torch_create_tensor_from_blob",
    parameters: ["u64", "i64", "buffer", "buffer", "i64", "i32", "i32", "i32", "pointer"],
    result: "i32",
  },
  newUndefined: { name: "aoti_torch_new_uninitialized_tensor", parameters: ["pointer"], result: "i32" },
  isDefined: { name: "aoti_torch_is_defined", parameters: ["u64", "pointer"], result: "i32" },
  dataPointer: { name: "aoti_torch_get_data_ptr", parameters: ["u64", "pointer"], result: "i32" },
  itemF64: { name: "aoti_torch_item_float64", parameters: ["u64", "pointer"], result: "i32" },
  itemI64: { name: "aoti_torch_item_int64", parameters: ["u64", "pointer"], result: "i32" },
  subtract: {
    name: "aoti_torch_aten_subtract_Tensor",
    parameters: ["u64", "u64", "f64", "pointer"],
    result: "i32",
  },
  fill: { name: "aoti_torch_aten_fill__Scalar", parameters: ["u64", "f64"], result: "i32" },
  zero: { name: "aoti_torch_zero_", parameters: ["u64"], result: "i32" },
  requireGrad: { name: "torch_set_requires_grad", parameters: ["u64", "bool"], result: "i32" },
  setGradMode: { name: "aoti_torch_grad_mode_set_enabled", parameters: ["bool"], result: "void" },
  gradMode: { name: "aoti_torch_grad_mode_is_enabled", parameters: [], result: "bool" },
} as const satisfies Deno.ForeignLibraryInterface;

const sinceAbi213 = {
  errorText: {
    name: "torch_exception_get_what_without_backtrace",
    parameters: [],
    result: "pointer",
    optional: true,
  },
  newBox: { name: "torch_new_stable_ivalue", parameters: ["pointer"], result: "i32", optional: true },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * C++ symbols of libtorch_cpu.so. Seen in 2.10.0 and 2.15.0 (wheels of PyPI; x86-64, and 2.15.0 on aarch64). A function that
 * returns an object has the place for it as its first parameter: object_results.ts.
 */
export const mangledTorch = {
  setAutocast: {
    name: "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb",
    parameters: ["i8", "bool"],
    result: "void",
    optional: true,
  },
  setAutocastDtype: {
    name: "_ZN2at8autocast18set_autocast_dtypeEN3c1010DeviceTypeENS1_10ScalarTypeE",
    parameters: ["i8", "i8"],
    result: "void",
    optional: true,
  },
  clearAutocastCache: {
    name: "_ZN2at8autocast11clear_cacheEv",
    parameters: [],
    result: "void",
    optional: true,
  },
  defaultGenerator: {
    name: "_ZN2at6detail22getDefaultCPUGeneratorEv",
    parameters: [],
    result: "pointer",
    optional: true,
  },
  seedCpuGenerator: {
    name: "_ZN2at16CPUGeneratorImpl16set_current_seedEm",
    parameters: ["u64", "u64"],
    result: "void",
    optional: true,
  },
  /** torch::cuda::manual_seed: in every build, and useful with a GPU. */
  seedCudaGenerator: {
    name: "_ZN5torch4cuda11manual_seedEm",
    parameters: ["u64"],
    result: "void",
    optional: true,
  },
  setThreads: { name: "_ZN2at15set_num_threadsEi", parameters: ["i32"], result: "void", optional: true },
  threads: { name: "_ZN2at15get_num_threadsEv", parameters: [], result: "i32", optional: true },
  globalContext: {
    name: "_ZN2at13globalContextEv",
    parameters: [],
    result: "pointer",
    optional: true,
  },
  setDeterministic: {
    name: "_ZN2at7Context26setDeterministicAlgorithmsEbb",
    parameters: ["pointer", "bool", "bool"],
    result: "void",
    optional: true,
  },
  setTf32CuBlas: {
    name: "_ZN2at7Context18setAllowTF32CuBLASEb",
    parameters: ["pointer", "bool"],
    result: "void",
    optional: true,
  },
  setTf32CuDnn: {
    name: "_ZN2at7Context17setAllowTF32CuDNNEb",
    parameters: ["pointer", "bool"],
    result: "void",
    optional: true,
  },
  setCuDnnBenchmark: {
    name: "_ZN2at7Context17setBenchmarkCuDNNEb",
    parameters: ["pointer", "bool"],
    result: "void",
    optional: true,
  },
  // torch.vmap (vmap.ts). Seen in 2.10.0 to 2.15.0, each of them.
  /** at::functorch::initAndPushDynamicLayer(kind, std::optional<SymInt> by its address, randomness, three or four more). */
  initAndPushLevel: {
    name:
      "_ZN2at9functorch23initAndPushDynamicLayerENS0_13TransformTypeESt8optionalIN3c106SymIntEES2_INS0_14RandomnessTypeEES2_IbES8_S8_S8_",
    parameters: ["i32", "buffer", "u64", "u64", "u64", "u64", "u64"],
    result: "i64",
    optional: true,
  },
  /** The same before 2.12. */
  initAndPushLevel210: {
    name:
      "_ZN2at9functorch23initAndPushDynamicLayerENS0_13TransformTypeESt8optionalIN3c106SymIntEES2_INS0_14RandomnessTypeEES2_IbES8_S8_",
    parameters: ["i32", "buffer", "u64", "u64", "u64", "u64"],
    result: "i64",
    optional: true,
  },
  pushLevel: {
    name: "_ZN2at9functorch16pushDynamicLayerEONS0_12DynamicLayerE",
    parameters: ["buffer"],
    result: "i64",
    optional: true,
  },
  popLevel: {
    name: "_ZN2at9functorch15popDynamicLayerEv",
    parameters: ["buffer"],
    result: "pointer",
    optional: true,
  },
  addBatchDim: {
    name: "_ZN2at9functorch11addBatchDimENS_6TensorEll",
    parameters: ["u64", "u64", "i64", "i64"],
    result: "pointer",
    optional: true,
  },
  unwrapAtLevel: {
    name: "_ZN2at9functorch19unwrapTensorAtLevelERKNS_6TensorEl",
    parameters: ["buffer", "u64", "i64"],
    result: "pointer",
    optional: true,
  },
  silenceVmap: {
    name: "_ZN2at9functorch29setVmapFallbackWarningEnabledEb",
    parameters: ["bool"],
    result: "void",
    optional: true,
  },
  // at::_ops::add_Tensor::call(Tensor const&, Tensor const&, Scalar const&) is the one unboxed op we call,
  // because the C interface has only subtract, whose backward costs two more passes. make.ts checks
  // beforehand what could be refused.
  addUnboxed: {
    name: "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE",
    parameters: ["u64", "u64", "u64", "pointer"],
    result: "pointer",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * C++ symbols of libc10.so. Seen in 2.10.0 and 2.15.0. Without it no gradient can be read: an error at start.
 */
export const mangledC10 = {
  /** It holds in the calling thread, and 0n brings back the usual one. */
  setWarningHandler: {
    name: "_ZN3c1012WarningUtils19set_warning_handlerEPNS_14WarningHandlerE",
    parameters: ["u64"],
    result: "void",
    optional: true,
  },
  gradSlot: {
    name: "_ZN3c1010TensorImpl12mutable_gradEv",
    parameters: ["u64"],
    result: "pointer",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

const libc = {
  copyOut: { name: "memcpy", parameters: ["u64", "pointer", "usize"], result: "void" },
  copyWord: { name: "memcpy", parameters: ["u64", "u64", "usize"], result: "void" },
  copyIn: { name: "memcpy", parameters: ["pointer", "u64", "usize"], result: "void" },
  copyFromBuffer: { name: "memcpy", parameters: ["u64", "buffer", "usize"], result: "void" },
  copyToBuffer: { name: "memcpy", parameters: ["buffer", "u64", "usize"], result: "void" },
  mallopt: { parameters: ["i32", "i32"], result: "i32", optional: true },
  dup: { parameters: ["i32"], result: "i32" },
  dup2: { parameters: ["i32", "i32"], result: "i32" },
  memfd: { name: "memfd_create", parameters: ["buffer", "u32"], result: "i32" },
  pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "isize" },
  lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
} as const satisfies Deno.ForeignLibraryInterface;

const libstdcpp = {
  operatorNew: { name: "_Znwm", parameters: ["usize"], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

type Calls<I extends Deno.ForeignLibraryInterface> = Deno.DynamicLibrary<I>["symbols"];
export type Bound =
  & Calls<typeof cAbi>
  & Calls<typeof libc>
  & Calls<typeof libstdcpp>
  & Calls<typeof mangledTorch>
  & Calls<typeof mangledC10>
  & Calls<typeof sinceAbi213>;

// libtorch before 2.13 prints its error text and backtrace to descriptor 2. We own the descriptor during each
// native call and read the text when a call fails.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const refusable = [
  "call",
  "subtract",
  "fill",
  "zero",
  "itemF64",
  "itemI64",
  "dataPointer",
  "requireGrad",
] as const;

/** Makes descriptor 2 a memory file while libtorch runs. Costs two system calls an op. */
function catchNativeErrors(): void {
  const real = native.dup(2);
  const file = native.memfd(encoder.encode("libtorch-errors\0"), 1);
  if (real < 0 || file < 0) return; // the text then goes to the terminal, and the message says it is not known
  errorText.around = (call) =>
    ((...args) => {
      native.dup2(file, 2);
      const code = call(...args);
      native.dup2(real, 2);
      return code;
    }) as typeof call;
  for (const name of refusable) {
    Object.assign(native, { [name]: errorText.around(native[name] as (...args: never[]) => number) });
  }
  let read = 0n;
  const readNew = () => {
    const end = native.lseek(file, 0n, 2);
    const buffer = new Uint8Array(Math.min(Number(end - read), 1 << 20));
    native.pread(file, buffer, BigInt(buffer.length), read);
    read = end;
    return decoder.decode(buffer);
  };
  errorText.read = () => {
    const { before, reason } = takeReason(readNew());
    passOn(before);
    return reason;
  };
  addEventListener("unload", () => passOn(readNew()));
}

/**
 * The printed form is "[E... file:line] Exception in aoti_torch: REASON", then "Exception raised from ..."
 * and frames.
 */
function takeReason(text: string): { before: string; reason: string } {
  const mark = "Exception in aoti_torch:";
  const start = text.lastIndexOf(mark);
  if (start < 0) return { before: text, reason: "" };
  return {
    before: text.slice(0, text.lastIndexOf("\n", start) + 1),
    reason: text.slice(start + mark.length),
  };
}

function passOn(text: string): void {
  if (text !== "") Deno.stderr.writeSync(encoder.encode(text));
}

let opened: Libtorch | undefined;

export function openedLibtorch(): Libtorch {
  if (!opened) throw new Error("internal: libtorch is used before it was opened.");
  return opened;
}

export const libtorchIsOpen = (): boolean => opened !== undefined;

export function openLibtorch(lib: Libtorch): void {
  if (opened?.dir === lib.dir) return;
  if (opened) throw new Error(`internal: libtorch is open already, from ${opened.dir}.`);
  const main = mainOf(lib);
  const bind = <I extends Deno.ForeignLibraryInterface>(path: string, symbols: I) => {
    try {
      Object.assign(native, Deno.dlopen(path, symbols).symbols);
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new LibraryError(`${path} can't be loaded: ${reason}.`, { cause });
    }
  };
  bind("libc.so.6", libc);
  bind("libstdc++.so.6", libstdcpp);
  keepFreedMemory();
  settleSpin();
  preload(main);
  bind(main, cAbi);
  bind(main, sinceAbi213);
  bind(main, mangledTorch);
  bind(`${lib.dir}/libc10.so`, mangledC10);
  setAbiVersion(native.abiVersion());
  if (!native.errorText) catchNativeErrors();
  if (!native.newBox) native.newBox = allocateBox;
  if (Deno.build.arch !== "x86_64") Object.assign(native, callsByStruct(main, mangledTorch));
  opened = lib;
}

const M_TRIM_THRESHOLD = -1, M_MMAP_THRESHOLD = -3, M_MMAP_MAX = -4;

/**
 * A training step frees and takes the same large buffers again and again. By default glibc gives each back to
 * the kernel, which clears its pages anew: 10% of a resnet18 step on two cores. These limits keep them.
 */
function keepFreedMemory(): void {
  native.mallopt?.(M_MMAP_THRESHOLD, 32 << 20); // the most glibc takes
  native.mallopt?.(M_TRIM_THRESHOLD, 512 << 20);
}

/**
 * Keeps buffers of any size: glibc asks the kernel anew for each that is larger than 32 MiB, and a convnet on
 * images of 160 x 160 spends half its time with that. The process grows by fragmentation, by up to a third.
 */
export function keepAllFreedMemory(): void {
  native.mallopt?.(M_MMAP_MAX, 0);
  native.mallopt?.(M_TRIM_THRESHOLD, -1); // never
}

/** Before 2.13 libtorch has no verb for a box: it frees eight bytes of operator new. */
function allocateBox(at: Deno.PointerValue): number {
  boxAddress[0] = native.operatorNew(8n);
  const address = Deno.UnsafePointer.value(at);
  native.copyOut(address, boxAddressAt, 8n);
  return 0;
}
const boxAddress = new BigUint64Array(new ArrayBuffer(8));
const boxAddressAt = Deno.UnsafePointer.of(boxAddress);

export function need<K extends keyof typeof native>(
  symbol: K,
  purpose: string,
): NonNullable<typeof native[K]> {
  const found = native[symbol];
  if (!found) {
    throw new LibraryError(
      `libtorch ${openedLibtorch().versionText} in ${openedLibtorch().dir} lacks a symbol needed to ${purpose}. ` +
        "Choose another libtorch with --libtorch DIR, or run: hpctrain libtorch install.",
    );
  }
  return found as NonNullable<typeof native[K]>;
}
