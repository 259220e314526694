// The entry of the Worker that watches NCCL while the training thread may be inside a native call. It never
// loads libtorch.
import {
  type Comm,
  type CudaEvents,
  inProgress,
  type Nccl,
  openCudaEvents,
  openNccl,
} from "../../../ffi/nccl/nccl.ts";
import type { GpuRuntime } from "../../../ffi/gpu/backends.ts";
import { end, type FlightRecorder, openFlightRecorder, recorded } from "../flight_recorder.ts";
import {
  ABORT,
  BEGUN,
  DONE,
  eventOf,
  GO_ON,
  HELD,
  hold,
  MEASURED,
  type NcclShared,
  openNcclShared,
  pairOf,
  QUEUED,
  release,
  REQUEST,
  STOP,
  WAITS,
} from "../../../ffi/nccl/shared.ts";
import { reached, type ThreadScope } from "../../base/threads.ts";

declare const self: ThreadScope;

export interface NcclThreadOptions {
  readonly nccl: string;
  readonly runtime: GpuRuntime;
  readonly device: number;
  readonly comm: Comm;
  readonly shared: SharedArrayBuffer;
  readonly flight: SharedArrayBuffer;
}

const LOOK_MS = 5, IDLE_MS = 100, CALL_MS = 100;

self.onmessage = ({ data }: MessageEvent<NcclThreadOptions>) => {
  const here = openNcclShared(data.shared);
  try {
    watch(data, here, openFlightRecorder(data.flight));
  } catch (error) {
    here.failure.write(
      `Communication between ranks failed: ${error instanceof Error ? error.message : error}`,
    );
  }
  self.postMessage(null);
};

function watch(
  { nccl: path, runtime, device, comm }: NcclThreadOptions,
  here: NcclShared,
  flight: FlightRecorder,
): void {
  const nccl = openNccl(path, runtime.kind), events = openCudaEvents(runtime);
  events.useDevice(device);
  events.besideCapture();
  let ended = 0, measured = 0;
  for (;;) {
    const request = Atomics.load(here.words, REQUEST);
    const code = request === GO_ON ? stateOf(nccl, comm, here) : 0;
    for (; reached(here.words, QUEUED, ended + 1); ended++) {
      const done = eventOf(here, ended + 1, DONE);
      if (!events.done(done)) break;
      end(flight, ended + 1, events.seconds(eventOf(here, ended + 1, BEGUN), done));
    }
    if (code !== 0 && !inProgress(code)) here.failure.write(sentenceOf(nccl, comm, code, flight, ended));
    // Queued work then ends without a result, and the training thread comes out of its native call to read
    // why.
    if (request === ABORT || here.failure.read() !== null) return abort(nccl, comm, here);
    measured = measure(here, events, measured);
    if (request === STOP) return;
    const idle = !reached(here.words, QUEUED, ended + 1);
    if (idle) Atomics.wait(here.words, QUEUED, ended | 0, IDLE_MS);
    else Atomics.wait(here.words, REQUEST, request, LOOK_MS);
  }
}

/** 0 while the training thread is in a call: it asks for the state itself. */
function stateOf(nccl: Nccl, comm: Comm, here: NcclShared): number {
  if (!hold(here)) return 0;
  const code = nccl.state(comm);
  release(here);
  return code;
}

/** The communicator stays held: it is no more. A call that only this can end is not waited for. */
function abort(nccl: Nccl, comm: Comm, here: NcclShared): void {
  for (let waited = 0; waited < CALL_MS && !hold(here); waited++) Atomics.wait(here.words, HELD, 1, 1);
  nccl.abort(comm);
}

function measure(here: NcclShared, events: CudaEvents, measured: number): number {
  while (reached(here.words, WAITS, measured + 1)) {
    const behind = pairOf(here, measured + 1, 1);
    if (!events.done(behind)) break;
    here.waited[0] += events.seconds(pairOf(here, measured + 1, 0), behind);
    Atomics.store(here.words, MEASURED, ++measured | 0);
  }
  return measured;
}

function sentenceOf(nccl: Nccl, comm: Comm, code: number, flight: FlightRecorder, ended: number): string {
  const at = recorded(flight, ended + 1);
  const where = at ? ` in ${at.op} ${at.sequence} (${at.phase})` : "";
  return `Communication between ranks failed${where}: ${nccl.text(code, comm)} (${nccl.version}).`;
}
