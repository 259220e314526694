// JPEG as most files have it -> planes of red, green and blue, with libjpeg-turbo's bits, in the vector instructions of
// WebAssembly. Takes 8-bit baseline files of one scan, grey or YCbCr 4:4:4, 4:2:2, 4:2:0, that are without fault; of
// anything else it says 0, and the library decides. AssemblyScript.
import { copyGrey, toRgb } from "./colours";
import { across, components, down, height, interval, planeBytes, readHeader, width } from "./header";
import { align, ARENA, need } from "./places";
import { decodeScan, unstuff } from "./scan";

export { again } from "./again";
export { split } from "./colours";
export { planeBytes } from "./header";

/** Room for a file of this many bytes, to be put there. */
export function room(bytes: i32): usize {
  need(ARENA + bytes + 64);
  return ARENA;
}

/** The place of the red plane, 0 for a file that the library has to judge. Planes are `planeBytes` apart, rows `width`. */
export function decode(size: i32): usize {
  const end = ARENA + size;
  const scan = readHeader(ARENA, end);
  if (scan == 0) return 0;
  const mcuWidth = 8 * across, mcuHeight = 8 * down;
  const columns = (width + mcuWidth - 1) / mcuWidth, rows = (height + mcuHeight - 1) / mcuHeight;
  const segments = interval == 0 ? 1 : (columns * rows + interval - 1) / interval;
  const words = align(end + 16);
  const list = align(words + size + 48 * segments + 64); // of each segment: where its words begin, and its bytes
  const luma = align(list + 8 * segments);
  const lumaBytes: usize = columns * mcuWidth * rows * mcuHeight, chromaBytes: usize = columns * 8 * rows * 8;
  const blue = align(luma + lumaBytes + 64), red = align(blue + chromaBytes + 64);
  const scratch = align(red + chromaBytes + 64); // rows of colour differences
  const planes = align(scratch + 8 * (width + 64));
  need(planes + 3 * planeBytes() + 64);
  if (!unstuff(scan, end, words, list, segments)) return 0;
  if (!decodeScan(list, columns, rows, luma, blue, red)) return 0;
  if (components == 1) copyGrey(luma, columns * 8, planes);
  else toRgb(luma, blue, red, columns * mcuWidth, columns * 8, scratch, planes);
  return planes;
}
