// Bytes of pictures resampled, moved and blended by the vector instructions of WebAssembly, with the bits of the plain loops
// in resize.ts, warp.ts, colour.ts and blur.ts, which other numbers go through. AssemblyScript.
export { greySum, range, saturate, scale } from "./colours";
export { across, down, prepare } from "./resample";
export { sharpen } from "./sharpen";
export { moveNearest } from "./warp";

/** The first byte of so many, behind what the compiler put there. */
export function room(bytes: usize): usize {
  const base: usize = (__heap_base + 63) & ~63;
  const pages = <i32>((base + bytes + 64 + 0xffff) >> 16) - memory.size();
  if (pages > 0 && memory.grow(pages) < 0) unreachable();
  return base;
}
