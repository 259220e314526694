// The watchdog thread (entry of a Worker): it ends a `--full` that a native call does not return from, because of a
// dead file server or a GPU that hangs.
import { endProcess } from "../../../../ffi/libc.ts";
import type { ThreadScope } from "../../../base/threads.ts";

declare const self: ThreadScope;

export interface WatchdogOptions {
  readonly milliseconds: number;
  readonly sentence: string;
}

self.onmessage = ({ data: { milliseconds, sentence } }: MessageEvent<WatchdogOptions>) => {
  setTimeout(() => {
    console.error(sentence);
    endProcess(1);
  }, milliseconds);
};
