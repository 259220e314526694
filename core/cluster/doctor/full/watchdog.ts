// The watchdog thread (a Worker's entry) ends a `--full` that hangs in a native call, such as on a dead file
// server or GPU.
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
