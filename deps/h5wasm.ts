// The HDF5 library as WebAssembly: import it when a file needs it. Of its builds this one reads files where they are.
export { h5wasm } from "npm:h5wasm@0.10.3/node";
export type { Dataset, Entity, File } from "npm:h5wasm@0.10.3";
