// Answers as a person gives them, with the page's own buttons. Also forms as an attacker would send them.
import { request } from "node:http";

import { readable } from "../stage.mjs";

/** Opens the question and waits until it can be answered. */
export async function open(page, call) {
  await page.goto(`/questions/${call.question.id}`);
  await readable(page);
}

/** Clicks yes, after typing the confirmation phrase if it is required. Waits for the result of the click. */
export async function sayYes(page, name = "Yes, run it") {
  const form = page.locator("form[data-approves]", { has: page.getByRole("button", { name }) });
  const words = form.locator("input[name=confirm]");
  if (await words.count()) await words.pressSequentially("for good");
  const before = page.url();
  await form.getByRole("button", { name }).click();
  await page.waitForURL((url) => url.href !== before);
}

/** Returns the values that the yes form on the page would send. */
export function formOf(page) {
  return page.locator("form[data-approves]").first().evaluate((form) => Object.fromEntries(new FormData(form)));
}

/** Sends a form with the cookies of the page, by default with the page's own origin. Returns the status and the text of the response. */
export async function send(page, path, form, origin = new URL(page.url()).origin) {
  const { host, port } = new URL(page.url());
  const body = new URLSearchParams(form).toString();
  const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
  const headers = { host, cookie, "content-type": "application/x-www-form-urlencoded", "content-length": Buffer.byteLength(body) };
  // Connects by address, because only browsers resolve the host name on this machine.
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path, method: "POST", headers: origin ? { ...headers, origin } : headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, text }));
    });
    asked.on("error", reject).end(body);
  });
}

/** Returns the yes form for this question, with the CSRF token of the page's own session. */
export async function yesOf(page, call) {
  const token = await page.locator("input[name=csrf_token]").first().getAttribute("value");
  return { csrf_token: token, digest: call.question.digest, answer: "yes" };
}

/** Clicks no, and waits for the result of the click. */
export async function sayNo(page) {
  const before = page.url();
  await page.locator(".answers button.no[data-key=n]").click();
  await page.waitForURL((url) => url.href !== before);
}
