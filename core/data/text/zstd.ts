// The frames of a zstd file: a file may have several, and the decoder ends after one, even where it is cut off.
import { FileBytes } from "../../base/file_bytes.ts";

export interface Frame {
  readonly begin: number;
  readonly end: number;
}

const MAGIC = 0xfd2fb528, SKIPPED = 0x184d2a50;

/** Null where the file does not end with a whole frame. */
export function zstdFrames(path: string): readonly Frame[] | null {
  const file = new FileBytes(path), frames: Frame[] = [];
  try {
    for (let at = 0; at < file.size;) {
      const head = file.read(at, Math.min(8, file.size - at)), begin = at;
      if (head.length < 8) return null;
      const view = new DataView(head.buffer), magic = view.getUint32(0, true);
      if ((magic & 0xfffffff0) >>> 0 === SKIPPED) at += 8 + view.getUint32(4, true);
      else if (magic === MAGIC) {
        at = endOf(file, at);
        frames.push({ begin, end: at });
      } else return null;
      if (at > file.size) return null;
    }
    return frames;
  } finally {
    file.close();
  }
}

/** Past the end of the file where the frame is cut off. */
function endOf(file: FileBytes, begin: number): number {
  const [descriptor] = file.read(begin + 4, 1);
  const single = (descriptor & 32) !== 0, size = descriptor >> 6;
  let at = begin + 5 + (single ? 0 : 1) + [0, 1, 2, 4][descriptor & 3] +
    (size === 0 ? Number(single) : 2 ** size);
  for (let last = false; !last;) {
    if (at + 3 > file.size) return Infinity;
    const [a, b, c] = file.read(at, 3), header = a | b << 8 | c << 16;
    last = (header & 1) === 1;
    at += 3 + ((header >> 1 & 3) === 1 ? 1 : header >> 3); // one byte stands for a run
  }
  return at + (descriptor & 4);
}
