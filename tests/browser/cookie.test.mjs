// The cookie of a signed-in person. Browsers send a cookie to every port of a host, so the host must not be one that others serve under.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { Stage } from "./stage.mjs";

let stage, other, seen;

before(async () => {
  stage = await Stage.start();
  // An agent's development server, which stores the requests that it receives.
  seen = [];
  other = createServer((request, response) => {
    seen.push([request.headers.host, request.headers.cookie ?? ""]);
    response.setHeader("content-type", "text/html").end("<title>app</title>");
  });
  await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
});

after(async () => {
  other.close();
  await stage.stop();
});

test("no other port of this machine is sent the cookie, wherever somebody signed in", async () => {
  const port = other.address().port;
  for (const at of [stage.pages, stage.url, stage.url.replace("127.0.0.1", "localhost")]) {
    const page = await (await stage.browser({ baseURL: at })).newPage();
    await page.goto(`${at}/`);
    await page.getByLabel("Your token").fill(stage.ann);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Inbox" }).waitFor();
    // A person who signed in under another host name was redirected to the name for pages.
    assert.equal(new URL(page.url()).origin, stage.pages);
    for (const host of ["127.0.0.1", "localhost"]) await page.goto(`http://${host}:${port}/app`);
    const sent = seen.splice(0);
    assert.ok(sent.length >= 2 && sent.every(([, cookie]) => cookie === ""), JSON.stringify(sent));
    // The person is still signed in there, and nowhere else.
    await page.goto(`${stage.pages}/log`);
    await page.getByRole("heading", { name: "Log" }).waitFor();
    await page.goto(`${stage.url}/log`);
    await page.getByLabel("Your token").waitFor();
    // A person who signed in at this address before needs one more click.
    if (at === stage.url) {
      await page.getByText("Continue where you signed in before").click();
      await page.getByRole("heading", { name: "Log" }).waitFor();
      assert.equal(page.url(), `${stage.pages}/log`);
    }
    await page.context().close();
  }
});

test("the name is told to nobody without a person's token", async () => {
  const own = new URL(stage.pages).hostname;
  assert.match(own, /^byleave-[0-9a-f]{24}\.localhost$/);
  for (const path of ["/", "/sign-in", "/log", "/sign-in/ticket?ticket=x", "/v1/openapi.json"]) {
    const response = await fetch(`${stage.url}${path}`, { redirect: "manual" });
    const said = JSON.stringify([...response.headers]) + (await response.text());
    assert.ok(!said.includes(own), `${path}: ${said}`);
  }
  // A cookie that arrives under another host name is ignored.
  const page = await stage.signedIn();
  const [cookie] = await page.context().cookies();
  const response = await fetch(`${stage.url}/log`, { redirect: "manual", headers: { cookie: `${cookie.name}=${cookie.value}` } });
  assert.equal(response.status, 303);
  assert.match(response.headers.get("location"), /^\/sign-in/);
});
