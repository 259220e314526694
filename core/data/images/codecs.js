// @ts-self-types="./codecs.d.ts"
// The decoders that are WebAssembly, embedded with the program. JavaScript, because TypeScript does not know this kind
// of import yet.
import source jpeg from "@cwasm/jpeg-turbo/jpeg-turbo.wasm";
import source webp from "@cwasm/webp/webp.wasm";
import source fastJpeg from "./fast_jpeg.wasm";

export { fastJpeg, jpeg, webp };
