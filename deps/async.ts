// The standard library's waits. With JSR at hand the package is "jsr:@std/async@1".
// @ts-types="./std.d.ts"
export { delay } from "npm:deno-std@1.4.0/async/delay.js";
