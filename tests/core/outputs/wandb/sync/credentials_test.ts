// Which server, and which key.
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "paths";
import { UserError } from "../../../../../core/base/errors.ts";
import { findWandbServer, passwordIn, WandbKey } from "../../../../../core/outputs/wandb/sync/credentials.ts";
import { inTemp } from "../../../../integration/program.ts";
import { WANDBS } from "../runs.ts";

const SECRET = "s3cret".repeat(7);
const headerOf = (key: string) => `Basic ${btoa(`api:${key}`)}`;

Deno.test("the address is asked for, else in the environment, else in W&B's settings, else the cloud's", () =>
  inTemp((HOME) => {
    const env = { HOME, WANDB_API_KEY: SECRET };
    assertEquals(findWandbServer(env).url, "https://api.wandb.ai");
    Deno.mkdirSync(join(HOME, ".config/wandb"), { recursive: true });
    Deno.writeTextFileSync(
      join(HOME, ".config/wandb/settings"),
      "[default]\nbase_url = https://w.example/\n",
    );
    assertEquals(findWandbServer(env).url, "https://w.example");
    assertEquals(findWandbServer({ ...env, WANDB_BASE_URL: "http://h:1/x/" }).url, "http://h:1/x");
    assertEquals(
      findWandbServer({ ...env, WANDB_BASE_URL: "http://h" }, { baseUrl: "https://g" }).url,
      "https://g",
    );
  }));

Deno.test("addresses that are none, or that hold a password, are refused without being repeated whole", () => {
  for (const url of ["", "wandb.ai", "ftp://h", "http://", "javascript:1"]) {
    assertThrows(
      () => findWandbServer({ WANDB_API_KEY: SECRET }, { baseUrl: url }),
      UserError,
      "names no W&B server",
    );
  }
  const error = assertThrows(
    () => findWandbServer({ WANDB_API_KEY: SECRET }, { baseUrl: "x://me:pw@h" }),
    UserError,
  );
  assert(!error.message.includes("pw"), error.message);
});

Deno.test("the key is the environment's before netrc's before the file's", () =>
  inTemp((HOME) => {
    const url = { WANDB_BASE_URL: "https://w.example:8080" };
    const error = assertThrows(() => findWandbServer({ HOME, ...url }), UserError);
    assertMatch(error.message, /no key for w\.example:8080.*machine w\.example login/);
    Deno.mkdirSync(join(HOME, ".config/hpctrain"), { recursive: true });
    Deno.writeTextFileSync(join(HOME, ".config/hpctrain/wandb-key"), `${SECRET}1\n`, { mode: 0o600 });
    assertEquals(findWandbServer({ HOME, ...url }).key.header(), headerOf(`${SECRET}1`));
    Deno.writeTextFileSync(join(HOME, ".netrc"), `machine w.example login user password ${SECRET}2`);
    assertEquals(findWandbServer({ HOME, ...url }).key.header(), headerOf(`${SECRET}2`));
    assertEquals(
      findWandbServer({ HOME, ...url, WANDB_API_KEY: `${SECRET}3` }).key.header(),
      headerOf(`${SECRET}3`),
    );
    const other = { HOME, WANDB_BASE_URL: "https://other", NETRC: join(HOME, ".netrc") };
    assertEquals(findWandbServer(other).key.header(), headerOf(`${SECRET}1`));
  }));

Deno.test("a key file that others can read, or that holds no key, is refused", () =>
  inTemp((HOME) => {
    const file = join(HOME, "key");
    for (
      const [text, mode, says] of [
        [SECRET, 0o644, /Others on this machine/],
        [SECRET, 0o640, /Others on this machine/],
        ["two words", 0o600, /holds no key/],
        ["", 0o600, /holds no key/],
      ] as const
    ) {
      Deno.writeTextFileSync(file, text);
      Deno.chmodSync(file, mode);
      const error = assertThrows(() => findWandbServer({ HOME }, { keyFile: file }), UserError);
      assertMatch(error.message, says);
      assert(!error.message.includes(SECRET));
    }
    assertThrows(
      () => findWandbServer({ HOME }, { keyFile: join(HOME, "none") }),
      UserError,
      "can't be read",
    );
  }));

Deno.test("a WandbKey is never printed: not as text, JSON or by Deno.inspect", () => {
  const key = new WandbKey(SECRET, "a test");
  for (
    const text of [String(key), JSON.stringify({ key }), Deno.inspect(key), Deno.inspect({ a: { key } })]
  ) {
    assert(!text.includes(SECRET), text);
  }
  assertEquals(key.hide(`a ${SECRET} and ${headerOf(SECRET)}`), "a *** and Basic ***");
});

Deno.test("netrc is read as other programs read it", () => {
  const netrc = `# machine c password no
machine a login x password one
machine b
  login machine
  account password
  password "two words"
default login anonymous password rest`;
  assertEquals(["a", "b", "c"].map((host) => passwordIn(netrc, [host])), ["one", "two words", "rest"]);
  assertEquals(passwordIn("machine a login x", ["a"]), null);
  assertEquals(passwordIn("", ["a"]), null);
});

Deno.test("a key is found under each name that W&B's programs have for its server, the asked one first", () =>
  inTemp((HOME) => {
    const netrc = join(HOME, ".netrc");
    const keyFor = (url: string | undefined, text: string) => {
      Deno.writeTextFileSync(netrc, text);
      return findWandbServer({ HOME, WANDB_BASE_URL: url }).key.header();
    };
    const entry = (machine: string, key = SECRET) => `machine ${machine}\n  login user\n  password ${key}\n`;
    const cloud = "api.wandb.ai", forge = "api.forge.coreweave.com";
    assertEquals(keyFor(undefined, entry(forge)), headerOf(SECRET), "as the newest wandb login writes it");
    assertEquals(keyFor(undefined, entry(cloud)), headerOf(SECRET));
    assertEquals(keyFor(`https://${forge}`, entry(cloud)), headerOf(SECRET));
    assertEquals(keyFor(undefined, entry(forge, "other") + entry(cloud)), headerOf(SECRET));
    assertEquals(keyFor(undefined, `default login x password other\n${entry(cloud)}`), headerOf(SECRET));
    assertEquals(keyFor("http://w.example:8080", entry("w.example:8080")), headerOf(SECRET), "with its port");
    assertEquals(keyFor("http://w.example:8080", entry("w.example")), headerOf(SECRET));
    // No other server gets it.
    for (const url of ["https://wandb.ai.example", "https://w.example", `https://x.${cloud}`]) {
      assertThrows(() => keyFor(url, entry(cloud) + entry(forge)), UserError, "There is no key for");
    }
  }));

Deno.test("what the newest wandb login writes into netrc is found", () =>
  inTemp((HOME) => {
    const python = Deno.env.get(WANDBS.new);
    if (!python) throw new Error(`${WANDBS.new} names no Python with wandb: ./scripts/test sets it`);
    const write = `
from wandb.sdk.lib import urls
from wandb.sdk.lib.wbauth import wbnetrc
wbnetrc.write_netrc_auth(host=urls.DEFAULT_BASE_URL, api_key="${SECRET}")`;
    const env = { HOME, PATH: Deno.env.get("PATH")!, WANDB_MODE: "offline" };
    const { success, stderr } = new Deno.Command(python, { args: ["-c", write], env, clearEnv: true })
      .outputSync();
    assert(success, new TextDecoder().decode(stderr));
    assertEquals(findWandbServer({ HOME }).key.header(), headerOf(SECRET));
  }));
