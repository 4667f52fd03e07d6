// Requests to the server, and again where that is safe and the server is away or busy.

import { ByleaveError, Nonsense, type Problem, Unreachable, problemClass } from "./errors.js";
import { isObject } from "./models.js";

/** How long one request waits for a call to be settled; the server allows 60. */
export const WAIT_S = 30;

export interface Request {
  method: string;
  path: string[];
  query?: { [name: string]: string | number | undefined };
  body?: unknown;
  headers?: { [name: string]: string };
  /** Sent twice, it does the same as once. */
  repeatable?: boolean;
}

export interface Where {
  /** Where the server is; BYLEAVE_URL if not said. */
  baseUrl?: string;
  /** Who asks; BYLEAVE_TOKEN if not said. */
  token?: string;
  /** How often a request is sent that is safe to send again, before the server counts as away. */
  tries?: number;
}

export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

export class Wire {
  readonly tries: number;
  readonly #base: string;
  readonly #token: string;

  constructor(where: Where) {
    const base = where.baseUrl ?? process.env["BYLEAVE_URL"];
    const token = where.token ?? process.env["BYLEAVE_TOKEN"];
    if (!base || !token) throw new ByleaveError("give `baseUrl` and `token`, or set BYLEAVE_URL and BYLEAVE_TOKEN");
    this.#base = base.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.#token = token;
    this.tries = Math.max(1, where.tries ?? 5);
  }

  /** Sends a request, and reads the JSON of the answer. */
  async ask(request: Request, tries = this.tries): Promise<unknown> {
    return parsed(await this.text(request, tries));
  }

  /** Sends a request, and gives the answer as text. */
  async text(request: Request, tries = this.tries): Promise<string> {
    for (let attempt = 1; ; attempt += 1) {
      const isLast = attempt >= tries || !request.repeatable;
      let response: Response;
      let body: string;
      try {
        response = await this.fetch(request, AbortSignal.timeout((WAIT_S + 30) * 1000));
        body = await response.text();
      } catch (error) {
        if (isLast) throw new Unreachable(`the server cannot be reached: ${String(error)}`, { cause: error });
        await pause(Math.min(50 * 2 ** attempt, 5000));
        continue;
      }
      if (response.ok) return body;
      const problem = problemOf(response, body);
      if (isLast || problem.code !== "too-many") throw problem;
      await pause((problem.retryAfterS ?? 1) * 1000);
    }
  }

  /** Sends a request once. A redirect is not followed: it would carry the token elsewhere. */
  fetch(request: Request, signal: AbortSignal): Promise<Response> {
    // What is no name of its own (`..`) would leave its place in the path.
    const path = request.path.map((part) => (/^\.*$/.test(part) ? "-" : encodeURIComponent(part))).join("/");
    const url = new URL(`${this.#base}/v1/${path}`);
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers: { [name: string]: string } = { authorization: `Bearer ${this.#token}`, ...request.headers };
    const options: RequestInit = { method: request.method, headers, redirect: "manual", signal };
    if (request.body !== undefined) {
      headers["content-type"] = "application/json";
      options.body = JSON.stringify(request.body);
    }
    return fetch(url, options);
  }
}

/** The problem that was answered. What does not read as one is nonsense. */
export function problemOf(response: Response, body: string): Problem {
  const said = response.headers.get("content-type") === "application/problem+json" ? parsed(body) : undefined;
  if (!isObject(said)) throw new Nonsense(`the server answered ${response.status} and does not say why`);
  const part = (name: string) => String(said[name] ?? "");
  const after = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const kind = problemClass(response.status);
  const retryAfterS = Number.isNaN(after) ? undefined : after;
  return new kind(response.status, part("code"), part("title"), part("detail"), part("type"), retryAfterS);
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new Nonsense("the answer is no JSON", { cause: error });
  }
}
