// A rank's end of its connection to the server: the introduction, then messages both ways. May import its siblings.
import { EXIT } from "../../errors.ts";
import { type Channel, encode } from "./channel.ts";
import { findServer, type Found, type Outlook } from "./find.ts";
import type { Address } from "./address.ts";
import { keyOf } from "./auth.ts";
import { seconds } from "./hang.ts";
import type { FirstError, Hello, Seat, Settings, ToRank, ToServer } from "./messages.ts";

export interface Client {
  readonly seats: readonly Seat[];
  /** Where the server answered. */
  readonly address: Address;
  /** What this job's ranks alone know, for connections of their own. It is never sent. */
  readonly key: Uint8Array;
  /** The addresses at both ends of this connection. */
  readonly ends: Found["ends"];
  send(message: ToServer): void;
  flushed(): Promise<void>;
  /** Until the connection ends: true after a goodbye. */
  listen(heard: (message: ToRank) => void): Promise<boolean>;
  /** Milliseconds since the server's last message. */
  silence(): number;
  close(): void;
}

export interface JoinOptions {
  readonly hello: Hello;
  /** Sent when its hash differs from rank 0's, so that the server can name what differs. */
  readonly settings: Settings;
  look(): Outlook;
  /** Milliseconds for finding the server, and for hearing nothing from it. */
  readonly arrive: number;
  readonly silence: number;
}

/** The job has ended before it began, or while this rank was in it. */
export class JobFailed extends Error {
  constructor(readonly first: FirstError) {
    super(first.told);
  }
}

export async function join(options: JoinOptions): Promise<Client> {
  const { hello, settings } = options;
  const { channel, address, secret, ends } = await findServer(
    options.look,
    performance.now() + options.arrive,
  );
  const send = (message: ToServer) => channel.send(encode(message));
  let heard = performance.now();
  const receive = async () => {
    const message = await channel.receive().catch(() => null) as ToRank | null;
    heard = performance.now();
    return message;
  };
  send({ is: "hello", hello });
  const seats = await seated(receive, () => send({ is: "settings", settings }), channel, options.silence)
    .catch((error) => {
      channel.close();
      throw error;
    });
  return {
    seats,
    address,
    key: keyOf(secret),
    ends,
    send,
    flushed: channel.flushed,
    async listen(tell) {
      for (let message; (message = await receive());) {
        if (message.is === "goodbye") return true;
        tell(message);
      }
      return false;
    },
    silence: () => performance.now() - heard,
    close: channel.close,
  };
}

async function seated(
  receive: () => Promise<ToRank | null>,
  sendSettings: () => void,
  channel: Channel,
  silence: number,
): Promise<readonly Seat[]> {
  let timer = 0;
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(() => channel.close(), silence);
  };
  try {
    for (again();; again()) {
      const message = await receive();
      if (message === null) {
        throw new JobFailed(zeroIsGone("", `is gone before all had come, or silent for ${seconds(silence)}`));
      }
      if (message.is === "table") {
        return message.seats.map(([localRank, host, pid, device], rank) => ({
          rank,
          localRank,
          host,
          pid,
          device,
        }));
      }
      if (message.is === "error") throw new JobFailed(message.error);
      if (message.is === "settings?") sendSettings();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** The one failure of which no server can tell. */
export function zeroIsGone(host: string, why: string): FirstError {
  const told = `Rank 0${host && ` on ${host}`} ${why}: look at its own output first.`;
  const code = EXIT.communication;
  return { rank: 0, host, step: 0, sentence: told, code, told, others: code };
}
