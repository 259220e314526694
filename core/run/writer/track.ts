// The event log as the training thread sees it: an event goes into shared memory in a few microseconds, and
// the writing thread puts it on disk.
import {
  eventLine,
  type EventLog,
  type EventLogOptions,
  openEventFile,
  openLosses,
  SAMPLES,
} from "../event_log.ts";
import type { Emitted } from "../events.ts";
import { withoutSecrets } from "../../base/secrets.ts";
import type { Output } from "../output.ts";
import type { SystemSetup } from "../system.ts";
import {
  EVENT,
  newSharedRing,
  newStepNumbers,
  NOTE,
  openPusher,
  type Pusher,
  putStep,
  REWIND,
  STEP_NUMBERS,
  type ThreadMessage,
  type ThreadSetup,
} from "./ring.ts";

export interface TrackOptions extends EventLogOptions {
  readonly system?: SystemSetup | null;
  readonly outputs?: readonly Output[];
  /** Null where the launcher keeps what is printed. */
  readonly log?: string | null;
  /** Called when all is written. */
  readonly closed?: () => Promise<unknown> | undefined;
  /** The bytes of records that may wait. */
  readonly room?: number;
}

/** Functions stay in the training thread. */
const forThread = ({ name, module, setup, wants }: Output): ThreadSetup["outputs"][number] => ({
  name,
  module,
  setup,
  wants,
});

/** On a busy machine the thread may not run for a second. */
const FLUSH_MS = 5_000;
const BEHIND = "what came before is still being written";
/** The end waits so long for a slow disk. */
const PATIENCE_MS = 10_000;

/** Throws a UserError where the log can't be opened; a later failure costs lines. */
export function openTrack(path: string, options: TrackOptions): EventLog {
  openEventFile(path, () => {}).close();
  const { warn, mirror, system = null, outputs = [], log = null } = options;
  const shared = newSharedRing(options.room);
  const pusher = openPusher(shared);
  const thread = startThread(
    { shared, events: path, system, outputs: outputs.map(forThread), log, mirror: mirror !== undefined },
    options,
  );
  const now = options.now ?? (() => Date.now() / 1000);
  const losses = openLosses(path, warn);
  const numbers = newStepNumbers();
  let noted = true, behind = false;
  const push = (kind: number, text: string, urgent: boolean) => {
    if (!pusher.push(kind, text, urgent)) losses.lose(1, BEHIND);
  };
  return {
    emit(event) {
      if (event.kind === "step") {
        pusher.at(event.step);
        if (mirror === undefined && !event.losses) { // those have names, which are no numbers
          putStep(numbers, event, now());
          if (!pusher.pushWords(STEP_NUMBERS, numbers.words)) losses.lose(1, BEHIND);
          return;
        }
      }
      const line = eventLine(stamped(event), now(), options, losses);
      if (line === null) return;
      push(EVENT, line + "\n", !SAMPLES.has(event.kind));
    },
    note(note) {
      if (outputs.length === 0 && log === null) return;
      if (pusher.push(NOTE, JSON.stringify(note), false)) return;
      if (noted) warn("A line or a picture was not written down: what came before is still being written.");
      noted = false;
    },
    flush() {
      behind = !pusher.written(behind ? 0 : FLUSH_MS); // a hanging disk is waited for once
    },
    rewind({ step, epoch }) {
      push(REWIND, JSON.stringify({ step, epoch }), true);
    },
    get lost() {
      return losses.count + pusher.lost;
    },
    async close() {
      await thread.end(pusher);
      await Promise.all([options.closed?.(), ...outputs.map((output) => output.closed?.())]);
    },
  };
}

const stamped = (event: Emitted): Emitted =>
  event.kind === "warning" ? { ...event, message: withoutSecrets(event.message) } : event;

/** Other ranks than the first write their machine metrics to files of their own. */
export function openRankTrack(system: SystemSetup, warn: (message: string) => void): EventLog {
  const shared = newSharedRing(2 ** 12);
  const pusher = openPusher(shared);
  const thread = startThread({ shared, events: null, system, outputs: [], log: null, mirror: false }, {
    warn,
  });
  return {
    emit(event) {
      if (event.kind === "step") pusher.at(event.step);
    },
    note() {},
    flush() {},
    rewind() {},
    lost: 0,
    close: () => thread.end(pusher),
  };
}

/** A thread that waits for its setup. */
let waiting: Worker | null = null;

const newThread = () =>
  new Worker(new URL("./thread.ts", import.meta.url), { type: "module", name: "track" });

/** The first log that is opened gets this thread. Its start takes 30 ms, which a run has while libtorch is loaded. */
export function startThreadAhead(): void {
  waiting ??= newThread();
}

/** Ends it where no log was opened. */
export function endThreadAhead(): void {
  waiting?.terminate();
  waiting = null;
}

function startThread(setup: ThreadSetup, { warn, mirror }: Pick<EventLogOptions, "warn" | "mirror">) {
  const worker = waiting ?? newThread();
  waiting = null;
  const ended = Promise.withResolvers<boolean>();
  worker.onmessage = ({ data: message }: MessageEvent<ThreadMessage>) => {
    if ("warning" in message) warn(message.warning);
    else if ("line" in message) mirror?.(message.line);
    else ended.resolve(true);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    warn(`internal: the thread that writes down how the run goes has ended: ${event.message}`);
    ended.resolve(true);
  };
  worker.postMessage(setup);
  return {
    async end(pusher: Pusher): Promise<void> {
      pusher.end();
      const timer = setTimeout(() => ended.resolve(false), PATIENCE_MS);
      const whole = await ended.promise;
      clearTimeout(timer);
      worker.terminate();
      if (whole) return;
      warn(
        `The disk of ${setup.events ?? "the run's folder"} has not answered for ${PATIENCE_MS / 1000} s: ` +
          "the last lines there are missing.",
      );
    },
  };
}
