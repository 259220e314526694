// The standard library's streams. With JSR at hand the package is "jsr:@std/streams@1".
// @ts-types="./std.d.ts"
export { TextLineStream } from "npm:deno-std@1.4.0/streams/text_line_stream.js";
