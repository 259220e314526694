// What codecs.js gives.

export const jpeg: WebAssembly.Module;
export const webp: WebAssembly.Module;
