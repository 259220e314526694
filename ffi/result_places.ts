// Places for the results of libtorch's ops. An op takes memory for its result from an allocator; one of ours stands before
// libtorch's own, gives the memory that was chosen for a tensor of so many bytes, and asks libtorch's for everything else.
import { dataPages, pagesOfFile, pagesOfProcess, symbolOf } from "./machine_code.ts";
import { bytesAt, type MemoryBlock } from "./libc.ts";

/** Memory for a result. It is not the tensor's, and outlives it. */
export interface ResultMemory extends MemoryBlock {
  /** So many tensors of as many bytes that the op makes before are its own business. */
  readonly skips: number;
}

// The allocator as its methods see it, in words: what libtorch calls it by; the one behind it, whose `allocate` and deleter;
// the thread whose ops have places; two pieces of memory that all places are in; our deleter; how many places there are, and for
// each its bytes, its address and what it skips.
const METHODS = 0, BEHIND = 1, ALLOCATE = 2, DELETER = 3, THREAD = 4, FROM = 5, LENGTH = 6, OWN_DELETER = 7;
const COUNT = 8, FROM_TOO = 9, LENGTH_TOO = 10, PLACES = 11, PLACE = 3, MOST_PLACES = 16;
const STATE = PLACES + PLACE * MOST_PLACES;

/** A class's methods in their table behind its offset and type: two destructors, `allocate`, `is_simple_data_ptr`, these. */
const TABLE = 8, FIRST_METHOD = 2, ALLOCATE_METHOD = 4, DELETER_METHOD = 6;

// `DataPtr allocate(size_t)` gets the result's address in rdi, the allocator in rsi, the size in rdx. A DataPtr is the data's
// address, the deleter, what it is called with, and the device. A tensor frees nothing with its place. Some code of oneDNN's
// keeps the address alone, and asks for the deleter when it frees it: that one looks whether it is a place.
// deno-fmt-ignore
const CODE = Uint8Array.of(
  0x48, 0x8b, 0x4e, 0x40,                                       // allocate:    mov rcx, [rsi + 8 COUNT]
  0x48, 0x85, 0xc9,                                             //              test rcx, rcx
  0x74, 0x21,                                                   //              jz behind
  0x64, 0x48, 0x8b, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00,         //              mov rax, fs:[0]
  0x48, 0x3b, 0x46, 0x20,                                       //              cmp rax, [rsi + 8 THREAD]
  0x75, 0x12,                                                   //              jne behind
  0x4c, 0x8d, 0x46, 0x58,                                       //              lea r8, [rsi + 8 PLACES]
  0x49, 0x3b, 0x10,                                             // next:        cmp rdx, [r8]
  0x74, 0x13,                                                   //              je found
  0x49, 0x83, 0xc0, 0x18,                                       //              add r8, 24
  0x48, 0xff, 0xc9,                                             //              dec rcx
  0x75, 0xf2,                                                   //              jnz next
  0x48, 0x8b, 0x46, 0x10,                                       // behind:      mov rax, [rsi + 8 ALLOCATE]
  0x48, 0x8b, 0x76, 0x08,                                       //              mov rsi, [rsi + 8 BEHIND]
  0xff, 0xe0,                                                   //              jmp rax
  0x49, 0x83, 0x68, 0x10, 0x01,                                 // found:       sub qword ptr [r8 + 16], 1
  0x79, 0xef,                                                   //              jns behind
  0x49, 0xc7, 0x00, 0xff, 0xff, 0xff, 0xff,                     //              mov qword ptr [r8], -1
  0x57,                                                         //              push rdi
  0x41, 0x50,                                                   //              push r8
  0x48, 0x83, 0xec, 0x08,                                       //              sub rsp, 8
  0x48, 0x8b, 0x46, 0x10,                                       //              mov rax, [rsi + 8 ALLOCATE]
  0x48, 0x8b, 0x76, 0x08,                                       //              mov rsi, [rsi + 8 BEHIND]
  0x31, 0xd2,                                                   //              xor edx, edx
  0xff, 0xd0,                                                   //              call rax
  0x48, 0x83, 0xc4, 0x08,                                       //              add rsp, 8
  0x41, 0x58,                                                   //              pop r8
  0x5f,                                                         //              pop rdi
  0x49, 0x8b, 0x48, 0x08,                                       //              mov rcx, [r8 + 8]
  0x48, 0x89, 0x0f,                                             //              mov [rdi], rcx
  0x48, 0x89, 0x4f, 0x10,                                       //              mov [rdi + 16], rcx
  0x48, 0x8d, 0x0d, 0x07, 0x00, 0x00, 0x00,                     //              lea rcx, [rip+nothing]
  0x48, 0x89, 0x4f, 0x08,                                       //              mov [rdi + 8], rcx
  0x48, 0x89, 0xf8,                                             //              mov rax, rdi
  0xc3,                                                         // nothing:     ret
  0x48, 0x8b, 0x47, 0x38,                                       // raw_deleter: mov rax, [rdi + 8 OWN_DELETER]
  0xc3,                                                         //              ret
  0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0,                       // deleter:     mov rax, (the state)
  0x48, 0x89, 0xf9,                                             //              mov rcx, rdi
  0x48, 0x2b, 0x48, 0x28,                                       //              sub rcx, [rax + 8 FROM]
  0x48, 0x3b, 0x48, 0x30,                                       //              cmp rcx, [rax + 8 LENGTH]
  0x72, 0xe3,                                                   //              jb nothing
  0x48, 0x89, 0xf9,                                             //              mov rcx, rdi
  0x48, 0x2b, 0x48, 0x48,                                       //              sub rcx, [rax + 8 FROM_TOO]
  0x48, 0x3b, 0x48, 0x50,                                       //              cmp rcx, [rax + 8 LENGTH_TOO]
  0x72, 0xd6,                                                   //              jb nothing
  0xff, 0x60, 0x18,                                             //              jmp [rax + 8 DELETER]
  0x64, 0x48, 0x8b, 0x04, 0x25, 0x00, 0x00, 0x00, 0x00,         // thread:      mov rax, fs:[0]
  0xc3,                                                         //              ret
);
const OWN_DELETER_CODE = 0x7b, THREAD_CODE = 0xa2, ADDRESS_IN_CODE = 0x7d, DELETER_METHOD_CODE = 0x76;

const words = (address: bigint, count: number): BigUint64Array =>
  new BigUint64Array(Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address)!, 8 * count));

function call(at: bigint, ...args: (bigint | BigUint64Array<ArrayBuffer>)[]): bigint {
  const parameters = args.map((arg): Deno.NativeType => typeof arg === "bigint" ? "u64" : "buffer");
  const pointer = Deno.UnsafePointer.create(at) as Deno.PointerObject<never>;
  return (new Deno.UnsafeFnPointer(pointer, { parameters, result: "u64" }) as unknown as {
    call(...args: unknown[]): bigint;
  }).call(...args);
}

/** Another thread of this program may have put one there. */
function isOurs(allocator: bigint): boolean {
  const [methods] = words(allocator, 1);
  const [allocate] = words(methods + BigInt(8 * (ALLOCATE_METHOD - FIRST_METHOD)), 1);
  return bytesAt({ address: allocate, bytes: OWN_DELETER_CODE }).every((byte, i) => byte === CODE[i]);
}

/** Null where this machine or this libtorch lacks what is needed. */
let opened: BigUint64Array | null | undefined;

function open(): BigUint64Array | null {
  if (Deno.build.arch !== "x86_64") return null;
  const [get, getOwn, set, own] = [
    "_ZN3c1015GetCPUAllocatorEv",
    "_ZN3c1022GetDefaultCPUAllocatorEv",
    "_ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh",
    "_ZTVN3c1019DefaultCPUAllocatorE",
  ].map(symbolOf);
  if ([get, getOwn, set, own].includes(0n)) return null;
  const behind = call(getOwn), now = call(get), table = words(own, TABLE);
  if (now !== behind && !isOurs(now)) return null; // an allocator of somebody else's
  if (words(behind, 1)[0] !== own + BigInt(8 * FIRST_METHOD)) return null;
  const allocate = table[ALLOCATE_METHOD], deleter = call(table[DELETER_METHOD], behind);
  const made = new BigUint64Array(4);
  call(allocate, made, behind, 64n);
  if (made[0] !== made[2] || made[1] !== deleter) return null; // a DataPtr of another layout
  call(deleter, made[0]);
  const memory = dataPages(8 * (TABLE + STATE)); // libtorch has it as long as the process lives
  if (memory === null) return null;
  const at = memory + BigInt(8 * TABLE), code = CODE.slice();
  new DataView(code.buffer).setBigUint64(ADDRESS_IN_CODE, at, true);
  const pages = pagesOfProcess(code) ?? pagesOfFile(code);
  if (pages === null) return null;
  const methods = words(memory, TABLE), state = words(at, STATE);
  methods.set(table);
  methods[ALLOCATE_METHOD] = pages;
  methods[DELETER_METHOD] = pages + BigInt(DELETER_METHOD_CODE);
  state[METHODS] = memory + BigInt(8 * FIRST_METHOD);
  state[BEHIND] = behind;
  state[ALLOCATE] = allocate;
  state[DELETER] = deleter;
  state[THREAD] = call(pages + BigInt(THREAD_CODE));
  state[OWN_DELETER] = pages + BigInt(OWN_DELETER_CODE);
  call(set, at, 0n);
  return state;
}

/**
 * Runs `op` on this thread. Its tensors of as many bytes as a place has lie there, which must be looked at: it may have taken
 * one for something of its own. `within`: all places lie there.
 */
export function placing<R>(
  places: readonly ResultMemory[],
  within: readonly [MemoryBlock, MemoryBlock],
  op: () => R,
): R {
  if (opened === undefined) opened = open();
  if (opened === null || places.length === 0 || places.length > MOST_PLACES) return op();
  const state = opened;
  [state[FROM], state[FROM_TOO]] = [within[0].address, within[1].address];
  [state[LENGTH], state[LENGTH_TOO]] = [BigInt(within[0].bytes), BigInt(within[1].bytes)];
  places.forEach(({ address, bytes, skips }, i) => {
    const place = PLACES + PLACE * i;
    state[place] = BigInt(bytes);
    state[place + 1] = address;
    state[place + 2] = BigInt(skips);
  });
  state[COUNT] = BigInt(places.length);
  try {
    return op();
  } finally {
    state[COUNT] = 0n;
  }
}
