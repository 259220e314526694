// Rank 0 of two, connected with what is at a port; what its first sum comes to. Test helper.
import type { ThreadScope } from "../../../../core/base/threads.ts";
import { fixedBytes } from "../../../../ffi/ranks/transport.ts";
import { connect, LostRank, TcpTransport } from "../../../../ffi/ranks/tcp.ts";

declare const self: ThreadScope;

self.onmessage = ({ data: port }: MessageEvent<number>) => {
  const names = ["rank 0 on here", "rank 1 on there"];
  const transport = new TcpTransport({ rank: 0, descriptors: [-1, connect("127.0.0.1", port)!], names });
  try {
    const { address } = fixedBytes(1 << 20);
    transport.allReduce(address, 1 << 18, "f32", "sum");
    self.postMessage("it was added up");
  } catch (error) {
    self.postMessage(
      `${error instanceof LostRank ? "LostRank" : "another error"}: ${(error as Error).message}`,
    );
  }
};
