// libtorch before 2.13 hands no error text back: it prints text and backtrace to descriptor 2. Here we own the
// descriptor during each native call and read the text when a call fails. May import abi.
import { errorText, native } from "./abi.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** What libtorch may refuse. */
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

/** Wraps what can fail so that descriptor 2 is a memory file while libtorch runs. Costs two system calls an op. */
export function catchNativeErrors(): void {
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

/** The printed form is "[E... file:line] Exception in aoti_torch: REASON", then "Exception raised from ..." and frames. */
function takeReason(text: string): { before: string; reason: string } {
  const mark = "Exception in aoti_torch:";
  const start = text.lastIndexOf(mark);
  if (start < 0) return { before: text, reason: "" };
  return {
    before: text.slice(0, text.lastIndexOf("\n", start) + 1),
    reason: text.slice(start + mark.length),
  };
}

/** What libtorch printed that is no error (its warnings) goes where it was meant to go. */
function passOn(text: string): void {
  if (text !== "") Deno.stderr.writeSync(encoder.encode(text));
}
