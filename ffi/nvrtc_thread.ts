// The entry of a Worker that compiles CUDA C beside the thread that waits for it.
import type { ThreadScope } from "../core/base/threads.ts";
import { compileSome, type NvrtcWork } from "./nvrtc.ts";

declare const self: ThreadScope;

self.onmessage = ({ data }: MessageEvent<NvrtcWork>) => {
  compileSome(data);
  self.close();
};
