// @ts-self-types="./codecs.d.ts"
// The decoders of images as WebAssembly, embedded with the program. JavaScript, because TypeScript does not know this kind of
// import yet.
import source jpeg from "npm:@cwasm/jpeg-turbo@0.1.3/jpeg-turbo.wasm";
import source webp from "npm:@cwasm/webp@0.1.5/webp.wasm";

export { jpeg, webp };
