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

const POLL_MS = 5, IDLE_MS = 100, CALL_MS = 100;

self.onmessage = ({ data }: MessageEvent<NcclThreadOptions>) => {
  const shared = openNcclShared(data.shared);
  try {
    watch(data, shared, openFlightRecorder(data.flight));
  } catch (error) {
    shared.failure.write(
      `Communication between ranks failed: ${error instanceof Error ? error.message : error}`,
    );
  }
  self.postMessage(null);
};

function watch(
  { nccl: path, runtime, device, comm }: NcclThreadOptions,
  shared: NcclShared,
  flight: FlightRecorder,
): void {
  const nccl = openNccl(path, runtime.kind), events = openCudaEvents(runtime);
  events.useDevice(device);
  events.besideCapture();
  let ended = 0, measured = 0;
  for (;;) {
    const request = Atomics.load(shared.words, REQUEST);
    const code = request === GO_ON ? stateOf(nccl, comm, shared) : 0;
    for (; reached(shared.words, QUEUED, ended + 1); ended++) {
      const done = eventOf(shared, ended + 1, DONE);
      if (!events.done(done)) break;
      end(flight, ended + 1, events.seconds(eventOf(shared, ended + 1, BEGUN), done));
    }
    if (code !== 0 && !inProgress(code)) shared.failure.write(sentenceOf(nccl, comm, code, flight, ended));
    // Queued work then ends without a result, and the training thread comes out of its native call to read
    // why.
    if (request === ABORT || shared.failure.read() !== null) return abort(nccl, comm, shared);
    measured = measure(shared, events, measured);
    if (request === STOP) return;
    const idle = !reached(shared.words, QUEUED, ended + 1);
    if (idle) Atomics.wait(shared.words, QUEUED, ended | 0, IDLE_MS);
    else Atomics.wait(shared.words, REQUEST, request, POLL_MS);
  }
}

/** 0 while the training thread is in a call: it asks for the state itself. */
function stateOf(nccl: Nccl, comm: Comm, shared: NcclShared): number {
  if (!hold(shared)) return 0;
  const code = nccl.state(comm);
  release(shared);
  return code;
}

/** The communicator stays held: it is no more. A call that only this can end is not waited for. */
function abort(nccl: Nccl, comm: Comm, shared: NcclShared): void {
  for (let waited = 0; waited < CALL_MS && !hold(shared); waited++) Atomics.wait(shared.words, HELD, 1, 1);
  nccl.abort(comm);
}

function measure(shared: NcclShared, events: CudaEvents, measured: number): number {
  while (reached(shared.words, WAITS, measured + 1)) {
    const behind = pairOf(shared, measured + 1, 1);
    if (!events.done(behind)) break;
    shared.waited[0] += events.seconds(pairOf(shared, measured + 1, 0), behind);
    Atomics.store(shared.words, MEASURED, ++measured | 0);
  }
  return measured;
}

function sentenceOf(nccl: Nccl, comm: Comm, code: number, flight: FlightRecorder, ended: number): string {
  const at = recorded(flight, ended + 1);
  const where = at ? ` in ${at.op} ${at.sequence} (${at.phase})` : "";
  return `Communication between ranks failed${where}: ${nccl.text(code, comm)} (${nccl.version}).`;
}
