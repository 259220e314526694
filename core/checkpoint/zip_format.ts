// The numbers of the zip format that reader and writer share. Imports nothing.

export const LOCAL = { signature: 0x04034b50, bytes: 30 };
export const CENTRAL = { signature: 0x02014b50, bytes: 46 };
export const END = { signature: 0x06054b50, bytes: 22 };
export const END64 = { signature: 0x06064b50, bytes: 56 };
export const LOCATOR64 = { signature: 0x07064b50, bytes: 20 };
/** The extra field that holds 64-bit sizes. */
export const EXTRA64 = 0x0001;
/** The extra field of padding that torch.save uses ("FB"), so that data can be aligned for mmap. */
export const EXTRA_PADDING = 0x4246;
export const MAX16 = 0xffff;
export const MAX32 = 0xffffffff;
export const STORED = 0;
export const DEFLATED = 8;
export const FLAG_ENCRYPTED = 1;
/** Big enough to be fast, small enough to stay in the processor's cache between checksum and write. */
export const CHUNK_BYTES = 256 << 10;
