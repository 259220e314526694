// The thread that ends a --full which a native call does not come back from: a dead file server, a GPU that hangs. May
// import ffi/end_process.
import { endProcess } from "../../../../ffi/end_process.ts";
import type { ThreadScope } from "../../../thread_scope.ts";

declare const self: ThreadScope;

export interface Watch {
  readonly milliseconds: number;
  readonly sentence: string;
}

self.onmessage = ({ data: { milliseconds, sentence } }: MessageEvent<Watch>) => {
  setTimeout(() => {
    console.error(sentence);
    endProcess(1);
  }, milliseconds);
};
