// One rank that connects with others by TCP and adds up its number with theirs, as a thread. Test helper.
import { connectTcp, type TcpOptions } from "../../../../core/ranks/cpu/tcp.ts";
import type { ThreadScope } from "../../../../core/base/threads.ts";
import { fixedBytes } from "../../../../ffi/ranks/transport.ts";
import { TcpTransport } from "../../../../ffi/ranks/tcp.ts";

declare const self: ThreadScope;

/** What came of it. */
export interface Outcome {
  readonly sum: number | null;
  /** Why there is none. */
  readonly failed: string;
  /** Lines for the log. */
  readonly said: readonly string[];
}

self.onmessage = ({ data }: MessageEvent<Omit<TcpOptions, "failed" | "say">>) => {
  const said: string[] = [];
  try {
    const descriptors = connectTcp({ ...data, failed: () => null, say: (line) => void said.push(line) });
    const names = data.peers.map(({ name }) => name);
    const transport = new TcpTransport({ rank: data.rank, descriptors, names });
    const { bytes, address } = fixedBytes(8), view = new DataView(bytes.buffer);
    view.setFloat64(0, 10 ** data.rank, true);
    transport.allReduce(address, 1, "f64", "sum");
    transport.finalize();
    self.postMessage({ sum: view.getFloat64(0, true), failed: "", said } satisfies Outcome);
  } catch (error) {
    self.postMessage({ sum: null, failed: (error as Error).message, said } satisfies Outcome);
  }
};
