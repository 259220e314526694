// On aarch64 an op's function finds its arguments in x0 to x7 and d0 to d7 and the place of its result in x8. The function of an
// object gets the object in x0, so it can't be the op's: it is twelve instructions of ours, which load all these
// registers from the object and jump to the op. They have no frame, so what the op throws passes them by.
import { pagesOfFile, pagesOfProcess } from "./machine_code.ts";

/** Words of the object, counted from its first, which names its functions. */
export const LOADED = { target: 1, integers: 2, floats: 10, result: 18, words: 24 } as const;

const OBJECT = 17, TARGET = 16, RESULT = 8, PAIRS = 4; // x16 and x17 belong to nobody across a call
const STACK = 31;

const move = (to: number, from: number) => 0xaa0003e0 | from << 16 | to;
const load = (to: number, from: number, word: number) => 0xf9400000 | word << 10 | from << 5 | to;
const loadPair = (to: number, from: number, word: number) =>
  0xa9400000 | word << 15 | (to + 1) << 10 | from << 5 | to;
const loadFloats = (to: number, from: number, word: number) =>
  0x6d400000 | word << 15 | (to + 1) << 10 | from << 5 | to;
const addWords = (to: number, from: number, words: number) => 0x91000000 | words << 13 | from << 5 | to;
const jump = (to: number) => 0xd61f0000 | to << 5;
const call = (to: number) => 0xd63f0000 | to << 5;

const pairs = [...Array(PAIRS).keys()].map((i) => 2 * i);

export const LOADER = Uint32Array.of(
  move(OBJECT, 0),
  load(TARGET, OBJECT, LOADED.target),
  addWords(RESULT, OBJECT, LOADED.result),
  ...pairs.map((to) => loadFloats(to, OBJECT, LOADED.floats + to)),
  ...pairs.map((to) => loadPair(to, OBJECT, LOADED.integers + to)),
  jump(TARGET),
);

/** The loader's address; null where this machine gives no memory that can be executed. */
export function loaderAddress(): bigint | null {
  const bytes = new Uint8Array(LOADER.buffer);
  return pagesOfProcess(bytes) ?? pagesOfFile(bytes);
}

const SAVES = [0xffc00000, 0xa9800000, 0xa9000000]; // the mask of stp: with and without moving the stack's end
const FRAME = 0x910003fd, SIGNED = 0xd503233f; // mov x29, sp; paciasp

/**
 * True of code that saves registers, looks whether x0 is null and calls the third virtual function of what x0 points to.
 */
export function callsThird(code: Uint32Array): boolean {
  const [mask, ...stores] = SAVES.map((word) => word >>> 0);
  const saves = (word: number) =>
    stores.includes((word & mask) >>> 0) && (word >>> 5 & 31) === STACK || word === FRAME || word === SIGNED;
  const at = code.findIndex((word) => !saves(word));
  const [test, functions, third, called] = at < 0 ? [] : code.subarray(at, at + 4);
  const register = functions & 31;
  return (test & 0xff00001f) >>> 0 === 0xb4000000 && // cbz x0
    functions === load(register, 0, 0) >>> 0 && third === load(register, register, 2) >>> 0 &&
    called === call(register) >>> 0;
}
