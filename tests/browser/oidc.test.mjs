// Signing in with a real OpenID Connect provider (`oidc-provider`) on loopback.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { writeFileSync, chmodSync, chownSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { Stage } from "./stage.mjs";

let stage;
let issuer;
let listener;

before(async () => {
  const held = join(process.env.BYLEAVE_BROWSER, "node_modules/oidc-provider/lib/index.js");
  const { Provider } = await import(pathToFileURL(held));
  // The server's address is known only after its start. The provider reads its clients when they connect.
  const client = {
    client_id: "byleave",
    client_secret: "a-secret-of-the-client-0123456789",
    redirect_uris: ["http://127.0.0.1/sign-in/callback"],
    application_type: "native",
  };
  listener = createServer((request, response) => provider.callback()(request, response));
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  issuer = `http://127.0.0.1:${listener.address().port}`;
  const provider = new Provider(issuer, {
    clients: [client],
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    conformIdTokenClaims: false,
    // The provider accepts any typed name as that person. The address is verified unless the name says otherwise.
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: !id.startsWith("unverified") }),
    }),
  });
  provider.on("server_error", (_, error) => console.error(error));

  stage = await Stage.start();
  stage.server.kill("SIGTERM");
  const secret = join(stage.dir, "home", "client-secret");
  writeFileSync(secret, `${client.client_secret}\n`);
  if (process.getuid() === 0) chownSync(secret, 61003, 61003);
  chmodSync(secret, 0o600);
  stage.byleave("serve", "token", "add", "carol", "--person", "--at", issuer, "--as", "email:carol@example.org");
  stage.byleave("serve", "token", "add", "dan", "--person", "--at", issuer, "--as", "sub:dan");
  stage.byleave("serve", "token", "add", "una", "--person", "--at", issuer, "--as", "email:unverified@example.org");
  await stage.serve(["--oidc-issuer", issuer, "--oidc-client", "byleave", "--oidc-secret", secret]);
});
after(async () => {
  await stage?.stop();
  listener?.close();
  listener?.closeAllConnections();
});

/** Goes to the provider, and signs in there with a name. */
async function away(page, name) {
  await page.goto("/log?text=x");
  await page.getByRole("link", { name: "Sign in with your organisation" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("whatever");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

// req: R5
test("somebody who was let in signs in elsewhere, comes back to where they wanted to go, and is who our list says", async () => {
  for (const name of ["carol", "dan"]) {
    const page = await (await stage.browser()).newPage();
    await away(page, name);
    await page.waitForURL((url) => url.pathname === "/log" && url.search === "?text=x");
    await page.getByText(`${name} in local`).waitFor();
    await page.context().close();
  }
});

test("who was not let in is not, nor who shows an address that nobody verified", async () => {
  for (const name of ["mallory", "unverified"]) {
    const page = await (await stage.browser()).newPage();
    await away(page, name);
    await page.getByText("this server does not").waitFor();
    await page.goto("/log");
    await page.getByLabel("Your token").waitFor();
    await page.context().close();
  }
});

test("what comes back counts once, in the browser that went, and until the list says otherwise", async () => {
  const page = await (await stage.browser()).newPage();
  let back;
  page.on("request", (request) => {
    if (request.url().includes("/sign-in/callback")) back = request.url();
  });
  await away(page, "carol");
  await page.getByText("carol in local").waitFor();
  // The callback address in another browser, and again in the same browser.
  const other = await (await stage.browser()).newPage();
  await other.goto(back);
  await other.getByText("not started in this browser").waitFor();
  await page.goto(back);
  await page.getByText("not started here, or took too long").waitFor();
  // An invented state with a matching cookie.
  const made = new URL(back);
  made.searchParams.set("state", "made-up");
  await other.context().addCookies([{ name: `byleave-${new URL(stage.url).port}-away`, value: "made-up", url: stage.url }]);
  await other.goto(String(made));
  await other.getByText("not started here, or took too long").waitFor();
  // Removing the token ends the session at once.
  await page.goto("/log");
  await page.getByText("carol in local").waitFor();
  const carol = JSON.parse(stage.byleave("serve", "token", "list", "--json")).find(({ name }) => name === "carol");
  assert.equal(carol.signs_in.subject, "email:carol@example.org");
  stage.byleave("serve", "token", "remove", carol.id);
  await page.goto("/log");
  await page.getByLabel("Your token").waitFor();
});
