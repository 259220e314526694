// libtorch before 2.13 hands no error text back: it prints text and backtrace to descriptor 2. Here we own the
// descriptor during each native call and read the text when a call fails. May import abi.
import { errorText, native } from "./abi.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Wraps the dispatcher so that descriptor 2 is a memory file while libtorch runs. Costs two system calls an op. */
export function catchNativeErrors(): void {
  const real = native.dup(2);
  const file = native.memfd(encoder.encode("libtorch-errors\0"), 1);
  if (real < 0 || file < 0) return; // the text then goes to the terminal, and the message says it is not known
  let read = 0n;
  const call = native.call;
  native.call = (name, overload, stack, version) => {
    native.dup2(file, 2);
    const code = call(name, overload, stack, version);
    native.dup2(real, 2);
    return code;
  };
  const readNew = () => {
    const end = native.lseek(file, 0n, 2);
    const buffer = new Uint8Array(Math.min(Number(end - read), 1 << 20));
    native.pread(file, buffer, BigInt(buffer.length), read);
    read = end;
    return decoder.decode(buffer);
  };
  errorText.read = () => reason(readNew());
}

/** The printed form is "Exception in aoti_torch: REASON", then "Exception raised from ..." and frames. */
function reason(text: string): string {
  const start = text.lastIndexOf("Exception in aoti_torch:");
  return start < 0 ? text : text.slice(start + "Exception in aoti_torch:".length);
}
