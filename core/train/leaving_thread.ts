// A thread of its own for what ends the process, where no other one is free for it.
import type { ThreadScope } from "../base/threads.ts";
import type { LeavingMessage } from "./leaving.ts";
import { take } from "./leaving_bound.ts";

declare const self: ThreadScope;

self.onmessage = ({ data }: MessageEvent<LeavingMessage>) => take(data);
