// The standard library's paths. With JSR at hand the package is "jsr:@std/path@1".
// @ts-types="./std.d.ts"
export {
  basename,
  dirname,
  fromFileUrl,
  isAbsolute,
  join,
  normalize,
  relative,
  resolve,
  toFileUrl,
} from "npm:deno-std@1.4.0/path/mod.js";
