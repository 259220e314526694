// One integer more than x86-64's registers hold, for ops that are called by scalar_calls.ts: it lies on the stack.
import { LOADED } from "./arm_calls.ts";
import { pagesOfFile, pagesOfProcess } from "./machine_code.ts";

/** The first of six integer registers holds the place of the result. */
export const REGISTERS = 5;

/** The place of the seventh integer in the object that the verb is given. */
export const STACKED = LOADED.integers + REGISTERS;

/**
 * An op finds its seventh integer at the end of the stack. There lies the room that the verb has made for itself and does
 * not use before the call: this takes the number there from the object and jumps to the op. It has no frame, so what the
 * op throws passes it by.
 */
export const STACKER = Uint8Array.of(
  ...[0x48, 0x8b, 0x47, 8 * STACKED], // mov STACKED(%rdi), %rax
  ...[0x48, 0x89, 0x44, 0x24, 8], // mov %rax, 8(%rsp)
  ...[0xff, 0x67, 8 * LOADED.target], // jmp *target(%rdi)
);
let stacker: bigint | null = null;

/** Its address; null where this machine gives no memory that can be executed. */
export const stackerAddress = (): bigint | null =>
  stacker ??= pagesOfProcess(STACKER) ?? pagesOfFile(STACKER);
