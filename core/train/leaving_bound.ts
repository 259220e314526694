// The process is ended here where its own end hangs, mostly in a native call. No JavaScript of the main thread runs then,
// so another thread has this module.
import { endProcess } from "../../ffi/libc.ts";
import { onSignal } from "../../ffi/signals.ts";
import { cleanConsole } from "../base/terminal.ts";
import { writeForcedEnd } from "../ranks/launch/rank.ts";
import { type LeavingMessage, openExitBound } from "./leaving.ts";

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

export function take(message: LeavingMessage): void {
  if (message === "saved") return bound.begin();
  if (message.requested) bound.requested();
  reason = message.reason;
  bound.expect(message.code);
}
