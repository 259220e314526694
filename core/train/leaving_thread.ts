// The thread that ends the process where its own end hangs, mostly in a native call: no JavaScript of the main
// thread runs then.
import { endProcess } from "../../ffi/libc.ts";
import { onSignal } from "../../ffi/signals.ts";
import { cleanConsole } from "../base/terminal.ts";
import type { ThreadScope } from "../base/threads.ts";
import { writeForcedEnd } from "../ranks/launch/rank.ts";
import { type LeavingMessage, openExitBound } from "./leaving.ts";

declare const self: ThreadScope;

cleanConsole();
let reason = "";
const say = (line: string) => console.error(`warning: ${line}`);
const bound = openExitBound({
  say,
  end(code, why) {
    say(`${why}: ended with code ${code}.`);
    endProcess(writeForcedEnd(code, reason));
  },
  after: (seconds, act) => void setTimeout(act, 1000 * seconds),
});
onSignal("SIGINT", bound.interrupt);
self.onmessage = ({ data }: MessageEvent<LeavingMessage>) => {
  if (data === "saved") return bound.begin();
  if (data.requested) bound.requested();
  reason = data.reason;
  bound.expect(data.code);
};
