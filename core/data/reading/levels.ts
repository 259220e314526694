// Bytes -> floats as threads do it: one look-up each. May import nothing of ours.

/**
 * Writes what each byte of a row becomes: 256 floats a channel, whose bytes lie together in the row. Floats are moved
 * as the words they are, which is twice as fast as by way of doubles.
 */
export function openLevels(levels: Float32Array): (bytes: Uint8Array, into: Uint8Array) => void {
  const words = new Int32Array(levels.buffer, levels.byteOffset, levels.length);
  const channels = words.length / 256;
  return (bytes, into) => {
    const out = new Int32Array(into.buffer, into.byteOffset, into.byteLength / 4);
    const plane = bytes.length / channels;
    for (let c = 0; c < channels; c++) {
      const of = words.subarray(256 * c, 256 * (c + 1));
      for (let i = c * plane, end = i + plane; i < end; i++) out[i] = of[bytes[i]];
    }
  };
}
