// All operations under one name, as users' files and mod.ts have them: libtorch's, and the verbs that take numbers.
// May import ffi.
export * from "../../ffi/ops.ts";
export {
  add,
  constant,
  fill_,
  ones,
  scalar,
  scale,
  sub,
  tensor,
  toDevice,
  toNumbers,
  uninitialised,
  zero_,
  zeros,
} from "../../ffi/make.ts";
