// What codecs.js gives.

export const fastJpeg: WebAssembly.Module;
export const jpeg: WebAssembly.Module;
export const webp: WebAssembly.Module;
