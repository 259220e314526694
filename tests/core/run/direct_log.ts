// A log that writes each line at once in the calling thread, without the writing thread. Test helper.
import {
  eventLine,
  type EventLog,
  type EventLogOptions,
  openEventFile,
  openLosses,
} from "../../../core/run/event_log.ts";
import { rewindFile } from "../../../core/run/writer/thread.ts";

export function openEvents(path: string, options: EventLogOptions): EventLog {
  const now = options.now ?? (() => Date.now() / 1000);
  const encoder = new TextEncoder();
  const buffer = new Uint8Array(4096);
  const losses = openLosses(path, options.warn);
  const file = openEventFile(path, losses.lose);
  return {
    emit(event) {
      const line = eventLine(event, now(), options, losses);
      if (line === null) return;
      const text = line + "\n";
      // UTF-8 takes at most three bytes a UTF-16 unit, so a short line always fits the buffer.
      file.append(
        text.length * 3 <= buffer.length
          ? buffer.subarray(0, encoder.encodeInto(text, buffer).written)
          : encoder.encode(text),
      );
    },
    note() {},
    flush() {},
    rewind(to) {
      const warning = rewindFile(path, file.forget, to);
      if (warning) options.warn(warning);
    },
    get lost() {
      return losses.count;
    },
    close: () => file.close(),
  };
}
