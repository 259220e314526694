// What lies between sync-wandb and a server: a proxy, and a certificate that the system does not know.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "paths";
import { range, stepsOf, writeRun } from "../core/outputs/wandb/sync/rig.ts";
import { listenByHand, type Listening } from "./http_by_hand.ts";
import { inTemp } from "./program.ts";
import { syncs } from "./syncs.ts";
import { openWandbServer } from "./wandb_server.ts";

/** A forward proxy: it counts, and asks in its clients' name. */
function openProxy(): Listening & { readonly asked: string[] } {
  const asked: string[] = [];
  const listening = listenByHand(async ({ method, path, headers, body }) => {
    asked.push(`${method} ${path}`);
    const { host: _, ...others } = headers;
    const answer = await fetch(path, { method, headers: others, body: body as BodyInit });
    return { status: answer.status, body: new Uint8Array(await answer.arrayBuffer()) };
  });
  return { ...listening, asked };
}

Deno.test("a proxy is used where the environment names one, and not where it excepts the server", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"));
    await using server = openWandbServer();
    const proxy = openProxy();
    try {
      const through = { HTTP_PROXY: proxy.url, http_proxy: proxy.url };
      const { code, stderr } = await syncs(cwd, server, [], through);
      assertEquals([code, stderr], [0, ""]);
      assert(proxy.asked.includes(`POST ${server.url}/graphql`), proxy.asked.join("\n"));
      assertEquals(stepsOf(server.run().lines.history), range(0, 5));
      const before = proxy.asked.length;
      const without = { ...through, NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
      assertEquals((await syncs(cwd, server, ["--include-synced"], without)).code, 0);
      assertEquals(proxy.asked.length, before);
    } finally {
      await proxy.close();
    }
  }));

/** A certificate for localhost, signed by an authority that nobody knows. */
async function authority(cwd: string): Promise<{ ca: string; cert: string; key: string }> {
  const openssl = async (...args: string[]) => {
    const { success, stderr } = await new Deno.Command("openssl", { args, cwd }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  };
  Deno.writeTextFileSync(
    join(cwd, "ext"),
    "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
  );
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await openssl(
    "req",
    "-x509",
    ...newKey,
    "-keyout",
    "ca.key",
    "-out",
    "ca.pem",
    "-days",
    "2",
    "-subj",
    "/CN=ca",
  );
  await openssl("req", ...newKey, "-keyout", "key.pem", "-out", "req.pem", "-subj", "/CN=localhost");
  const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "ext"];
  await openssl("x509", "-req", "-in", "req.pem", ...signed, "-out", "cert.pem");
  const text = (name: string) => Deno.readTextFileSync(join(cwd, name));
  return { ca: join(cwd, "ca.pem"), cert: text("cert.pem"), key: text("key.pem") };
}

Deno.test("a server with a certificate of its own is trusted when its authority is named, and only then", () =>
  inTemp(async (cwd) => {
    writeRun(join(cwd, "logs/wandb"));
    const { ca, ...tls } = await authority(cwd);
    await using server = openWandbServer({ tls, hostname: "localhost" });
    const refused = await syncs(cwd, server, []);
    assertEquals(refused.code, 5);
    assertMatch(
      refused.stderr,
      /localhost:\d+ has a certificate that nobody known here has signed .*--ca-file/,
    );
    assertEquals(server.runs.size, 0);
    const ways: [string[], Record<string, string>][] = [
      [["--ca-file", ca], {}],
      [[], { SSL_CERT_FILE: ca }],
      [[], { REQUESTS_CA_BUNDLE: ca }],
    ];
    for (const [flags, env] of ways) {
      const { code, stderr } = await syncs(cwd, server, ["--include-synced", ...flags], env);
      assertEquals([code, stderr], [0, ""]);
    }
    assertEquals(stepsOf(server.run().lines.history), range(0, 5));
  }));
