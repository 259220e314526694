// Opens libtorch and binds its symbols, once per process. May import symbols, abi, aten, errors, preload,
// stderr, libraries/types.
import { native } from "./abi.ts";
import { setAbiVersion } from "./aten.ts";
import { LibraryError } from "./errors.ts";
import type { Libtorch } from "./libraries/types.ts";
import { mainOf, preload } from "./preload.ts";
import { settleSpin } from "./spin.ts";
import { catchNativeErrors } from "./stderr.ts";
import { cAbi, libc, libstdcpp, mangledC10, mangledTorch, sinceAbi213 } from "./symbols.ts";

let opened: Libtorch | undefined;

/** The libtorch in use. */
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
  // Elsewhere a C++ object is returned through a register that this call can't set.
  if (Deno.build.arch !== "x86_64") native.addUnboxed = null;
  opened = lib;
}

const M_TRIM_THRESHOLD = -1, M_MMAP_THRESHOLD = -3, M_MMAP_MAX = -4;

/**
 * A training step frees and takes the same large buffers again and again. By default glibc gives each back to the
 * kernel, which clears its pages anew: 10% of a resnet18 step on two cores. These limits keep them.
 */
function keepFreedMemory(): void {
  native.mallopt?.(M_MMAP_THRESHOLD, 32 << 20); // the most glibc takes
  native.mallopt?.(M_TRIM_THRESHOLD, 512 << 20);
}

/**
 * The same of buffers of any size: glibc asks the kernel anew for each that is larger than 32 MiB, and a convnet on images
 * of 160 x 160 spends half its time with that. What is kept lies in pieces, so the process grows, by up to a third.
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

/** A mangled symbol that this libtorch may lack: the sentence says what is lost. */
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
